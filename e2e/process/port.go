package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports are chosen below the ranges from which operating systems take the local ports of outgoing
// connections. So a server that is stopped for a while finds its port free again.
const (
	firstPort = 20000
	lastPort  = 29999
)

// freePort returns a TCP port of the loopback address on which nothing listens yet.
func freePort() (int, error) {
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

// WithPorts calls start with n different free ports. When it fails because somebody took one of them first,
// it is called again with others, three times at most.
func WithPorts(n int, start func(ports []int) error) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(n)
		if err != nil {
			return err
		}
		err = start(ports)
		if !errors.Is(err, ErrAddressInUse) || attempt == attempts {
			return err
		}
	}
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for len(ports) < n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports, nil
}

// Loopback returns the address of a port on the loopback interface.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
