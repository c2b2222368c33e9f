package stack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// patience is how long a server may wait for a slow client.
const patience = 20 * time.Second

// SlowClients connects clients that keep a server waiting, and one whose headers do not end, to a base URL and a path
// that takes the method, and expects that the server closes each connection.
func SlowClients(ctx context.Context, base, method, path string, config *tls.Config) error {
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n", method, path)
	clients := map[string]func(io.Writer) error{
		"one that says nothing":         func(io.Writer) error { return nil },
		"one that stops in the request": func(w io.Writer) error { return write(w, method+" /") },
		"one that stops in the headers": func(w io.Writer) error { return write(w, request) },
		"one that goes on with headers": func(w io.Writer) error { return drip(ctx, w, request, "X: y\r\n") },
		"one that stops in the body": func(w io.Writer) error {
			return write(w,
				request+"Content-Length: 1000\r\n\r\n{")
		},
		"one that goes on with a body": func(w io.Writer) error {
			return drip(ctx, w,
				request+"Content-Length: 100000\r\n\r\n", " ")
		},
		"one whose headers do not end": func(w io.Writer) error {
			return write(w,
				request+"X: "+strings.Repeat("y", 1<<20))
		},
	}
	var all []func() error
	for what, say := range clients {
		if method == http.MethodGet && strings.HasSuffix(what, "body") {
			continue // such a server reads none
		}
		all = append(all, func() error {
			conn, err := dial(ctx, base, config)
			if err != nil {
				return err
			}
			defer conn.Close()
			ended := time.AfterFunc(patience, func() { conn.SetDeadline(time.Now()) })
			defer ended.Stop()
			saying := make(chan struct{})
			go func() { // it ends when the connection does
				defer close(saying)
				_ = say(conn)
			}()
			// Whatever it answers, then it closes.
			_, err = io.Copy(io.Discard, conn)
			if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
				return fmt.Errorf("%s: %s has not closed the connection of %v", base, path, what)
			}
			conn.Close()
			<-saying
			return nil
		})
	}
	return Together(all...)
}

// OldTLS expects that a server refuses a client that speaks only versions before 1.2.
func OldTLS(ctx context.Context, base string, config *tls.Config) error {
	for version := uint16(tls.VersionTLS10); version < tls.VersionTLS12; version++ {
		old := config.Clone()
		old.MinVersion, old.MaxVersion = version, version
		conn, err := dial(ctx, base, old)
		if err == nil {
			conn.Close()
			return fmt.Errorf("%s speaks %s", base, tls.VersionName(version))
		}
		if !strings.Contains(err.Error(), "protocol version") {
			return fmt.Errorf("%s refuses %s for another reason: %w", base, tls.VersionName(version), err)
		}
	}
	conn, err := dial(ctx, base, config)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dial connects to a base URL, with TLS if it says so.
func dial(ctx context.Context, base string, config *tls.Config) (net.Conn, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "https" {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", u.Host)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// drip writes a text, and then some more every half second until the server closes the connection.
func drip(ctx context.Context, w io.Writer, text, more string) error {
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		if err := write(w, text); err != nil {
			return err
		}
		text = more
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
