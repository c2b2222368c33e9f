package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below the ranges from which operating systems take the local ports of outgoing
// connections. So a server that is stopped for a while finds its port free again.
const (
	firstPort = 20000
	lastPort  = 29999
)

// FreePort returns a TCP port of the loopback address on which nobody listens. Somebody may yet be faster;
// then Start returns ErrAddressInUse.
func FreePort() (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		var l net.Listener
		if l, err = net.Listen("tcp", Loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d on 127.0.0.1: %w", firstPort, lastPort, err)
}

// Loopback returns the address of a port on the loopback interface.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
