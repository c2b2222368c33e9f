package server

import "net"

// handshake is the first byte of TLS: the type of the record that a client begins with (RFC 8446, 5.1).
const handshake = 22

// sniffing is a listener that tells of connections that begin otherwise. net/http answers those that are
// HTTP with 400 and closes them all.
type sniffing struct {
	net.Listener
	plain func()
}

func (l sniffing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &sniffed{Conn: conn, plain: l.plain}, nil
}

// sniffed looks at the first byte of a connection. TLS reads from one goroutine at a time.
type sniffed struct {
	net.Conn
	plain func() // nil once the first byte was seen
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
