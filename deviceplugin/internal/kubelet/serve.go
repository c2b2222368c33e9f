package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	kubeletSocket = "kubelet.sock"
	// A kubelet that has a socket but does not answer yet is tried again, after twice as long each time.
	tryAgain, tryAgainAtMost = 100 * time.Millisecond, 5 * time.Second
	// registerTimeout bounds one call of Register.
	registerTimeout = 5 * time.Second
	// grace is for the calls that are under way when a session ends.
	grace = 5 * time.Second
)

// Observer is called after every registration, with nil, and after every failed one, with the reason.
type Observer interface{ Registered(error) }

// Server keeps a plugin registered with kubelet.
type Server struct {
	Dir      string // kubelet's device-plugins folder
	Socket   string // the plugin's socket in it, a name
	Resource string
	Plugin   pluginapi.DevicePluginServer
	Observer Observer

	registered atomic.Bool
}

// Ready returns why kubelet cannot call the plugin now, or nil.
func (s *Server) Ready() error {
	if !s.registered.Load() {
		return fmt.Errorf("not registered with kubelet at %s", filepath.Join(s.Dir, kubeletSocket))
	}
	return nil
}

// Run serves and registers until ctx ends. A kubelet that restarts removes all plugins' sockets and then makes its own
// anew. So after every change in the folder Run checks that its own socket is still there, and that kubelet's is the
// one that it registered with. If not, it serves or registers again at once.
func (s *Server) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching kubelet's device-plugins folder: %w", err)
	}
	defer watcher.Close()
	if err := watcher.Add(s.Dir); err != nil {
		return fmt.Errorf("watching kubelet's device-plugins folder %s: %w", s.Dir, err)
	}
	for ctx.Err() == nil {
		if err := s.session(ctx, watcher); err != nil {
			return err
		}
	}
	return nil
}

// session serves one socket for as long as it is there.
func (s *Server) session(ctx context.Context, watcher *fsnotify.Watcher) error {
	path := filepath.Join(s.Dir, s.Socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier run: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listening for kubelet: %w", err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // a later plugin's socket may be there by then
	ours := stat(path)
	if ours == nil { // a kubelet that starts has removed it already
		return listener.Close()
	}
	defer func() {
		if same(ours, stat(path)) {
			_ = os.Remove(path)
		}
	}()
	during, end := context.WithCancel(ctx)
	server := grpc.NewServer(grpc.StreamInterceptor(until(during)))
	pluginapi.RegisterDevicePluginServer(server, s.Plugin)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	defer s.registered.Store(false)
	defer stop(server)
	defer end()

	var with os.FileInfo // kubelet's socket at the last registration, nil for none
	pause := tryAgain
	for {
		if !same(ours, stat(path)) {
			return nil
		}
		var retry <-chan time.Time
		if theirs := stat(filepath.Join(s.Dir, kubeletSocket)); !same(with, theirs) {
			with = nil
			s.registered.Store(false)
			if theirs != nil {
				if err := s.register(ctx); err != nil {
					s.Observer.Registered(err)
					retry = time.After(pause)
					pause = min(2*pause, tryAgainAtMost)
				} else {
					with, pause = theirs, tryAgain
					s.registered.Store(true)
					s.Observer.Registered(nil)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serving kubelet: %w", err)
		case <-watcher.Events:
		case <-watcher.Errors: // events may be lost: look again
		case <-retry:
		}
	}
}

// register registers the plugin with kubelet.
func (s *Server) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+filepath.Join(s.Dir, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("registering with kubelet: %w", err)
	}
	defer connection.Close()
	_, err = pluginapi.NewRegistrationClient(connection).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: s.Socket, ResourceName: s.Resource,
		Options: options(),
	})
	if err != nil {
		return fmt.Errorf("registering %s with kubelet: %w", s.Resource, err)
	}
	return nil
}

// until ends streams when ctx ends: kubelet's watch of the list would go on for ever.
func until(ctx context.Context) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		both, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return handler(server, boundStream{stream, both})
	}
}

// boundStream is a stream with another context.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s boundStream) Context() context.Context { return s.ctx }

// stop lets calls under way end, for a while.
func stop(server *grpc.Server) {
	force := time.AfterFunc(grace, server.Stop)
	defer force.Stop()
	server.GracefulStop()
}

// stat returns what is at a path, nil when nothing is.
func stat(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// same reports whether both are the same file. A new socket may get the inode of the old one, but not its time.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}
