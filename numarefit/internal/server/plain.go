package server

import "net"

// handshake is the first byte of TLS: the type of a client's first record (RFC 8446, 5.1).
const handshake = 22

// sniffing is a listener that reports connections which are not TLS. net/http answers plain HTTP with 400 and closes
// the others.
type sniffing struct {
	net.Listener
	plain func()
}

func (l sniffing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sniffed{conn, l.plain}, nil
}

// sniffed looks at the first byte of a connection. TLS reads from one goroutine at a time.
type sniffed struct {
	net.Conn
	plain func() // nil after the first byte
}

func (c *sniffed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.plain != nil {
		if b[0] != handshake {
			c.plain()
		}
		c.plain = nil
	}
	return n, err
}
