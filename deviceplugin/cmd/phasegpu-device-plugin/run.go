package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/nvml"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/server"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

const (
	// socket is the plugin's in kubelet's folder.
	socket = "phasegpu-nvidia.sock"
	// readTimeout bounds one reading of the node's pods.
	readTimeout = 15 * time.Second
	// leaveTimeout bounds how long kubelet is served after the end has come, for pods on their way here.
	leaveTimeout = 4 * time.Second
)

// run serves until ctx ends.
func run(ctx context.Context, o *options) error {
	log, err := server.Logger(o.logLevel)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // stderr may be no file
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config = kube.Config(config)
	config.UserAgent = "phasegpu-device-plugin"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	return serve(ctx, o, client, listener, log)
}

// plugin is the parts and what connects them.
type plugin struct {
	o         *options
	client    kubernetes.Interface
	current   *inventory.Current
	allocator *allocate.Allocator
	following *kubelet.Following
	kubelet   *kubelet.Server
	metrics   *server.Metrics
	log       *zap.Logger
}

// serve runs all parts until ctx ends or one of them fails.
func serve(ctx context.Context, o *options, client kubernetes.Interface, listener net.Listener, log *zap.Logger) error {
	defer listener.Close()
	// A node without the library would start containers that are held to nothing.
	if err := o.isolation.Check(); err != nil {
		return err
	}
	p := &plugin{o: o, client: client, current: &inventory.Current{}, metrics: server.NewMetrics(), log: log}
	resource := string(classify.Family(inventory.Family).Count)
	p.allocator = &allocate.Allocator{
		Node: o.node, Resource: resource,
		Pods:       func(ctx context.Context) ([]corev1.Pod, error) { return p.pods(ctx, "") },
		Checkpoint: func() ([]kubelet.Entry, error) { return p.checkpoint(resource) },
		Devices:    func() []device.Device { devices, _, _ := p.current.Get(); return devices },
		Isolation:  o.isolation,
		CDIKind:    o.cdiKind,
		Told: func(about string, err error) {
			p.metrics.Problem(about)
			log.Warn("served all the same", zap.String("about", about), zap.Error(err))
		},
	}
	if o.refit != nil {
		p.allocator.Refit = server.ObservedRefit(o.refit.Ask, p.metrics, log)
	}
	answers := &kubelet.Plugin{Devices: p.current.Get, Allocator: server.Observed{Allocator: p.allocator, Metrics: p.metrics, Log: log}}
	p.following = &answers.Following
	p.kubelet = &kubelet.Server{Dir: o.kubeletDir, Socket: socket, Resource: resource, Told: p.registered, Plugin: answers}
	log.Info("serving", zap.String("node", o.node), zap.String("kubeletDir", o.kubeletDir), zap.Stringer("metricsListen", listener.Addr()))

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// Kubelet is served for a little longer than all else.
	serving, left := context.WithCancel(context.WithoutCancel(ctx))
	defer left()
	var running sync.WaitGroup
	for _, part := range []func(context.Context) error{
		p.cards,
		func(context.Context) error { return p.kubelet.Run(serving) },
		func(ctx context.Context) error {
			defer left()
			inventory.Publish(ctx, client, o.node, p.current, p.following.Get, p.published)
			p.leave(context.WithoutCancel(ctx))
			return nil
		},
		func(ctx context.Context) error { p.drift(ctx); return nil },
		func(ctx context.Context) error { return server.Serve(ctx, listener, p.ready(ctx), p.metrics.Registry) },
	} {
		running.Go(func() {
			if err := part(ctx); err != nil {
				fail(err)
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("ended")
	return nil
}

// cards keeps the current devices up to date.
func (p *plugin) cards(ctx context.Context) error {
	read := func(cards []inventory.Card) error {
		devices, err := p.o.shape.Devices(cards)
		if err != nil {
			return err
		}
		p.current.Set(devices)
		p.metrics.Devices(devices)
		return nil
	}
	problem := func(about string) func(error) {
		return func(err error) {
			p.metrics.Problem(about)
			p.log.Warn("the inventory stays as it was", zap.String("about", about), zap.Error(err))
		}
	}
	if p.o.inventoryFile != "" {
		return inventory.WatchFile(ctx, p.o.inventoryFile, read, problem("inventory_file"))
	}
	return nvml.Watch(ctx, nvml.Options{
		IgnoredXIDs: p.o.ignoredXIDs, RecoverAfter: p.o.recoverAfter, ProbeEvery: p.o.probeEvery,
		Read: read, Told: problem("nvml"),
		XID: func(uuid string, code uint64, fatal bool) {
			p.metrics.XID(uuid, code, fatal)
			p.log.Warn("a card reported an XID", zap.String("device", uuid), zap.Uint64("xid", code), zap.Bool("fatal", fatal))
		},
	})
}

// pods reads the pods bound to this node, at a resourceVersion: "" is as they are now, "0" as the API
// server remembers them.
func (p *plugin) pods(ctx context.Context, version string) ([]corev1.Pod, error) {
	read := func() (*corev1.PodList, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return p.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector("spec.nodeName", p.o.node).String(),
			ResourceVersion: version,
		})
	}
	list, err := read()
	if err != nil && ctx.Err() == nil {
		// The time may have passed, and the connection been lost, while the whole node was paused. Kubelet
		// rejects the pod for an error, and nobody tries again.
		list, err = read()
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (p *plugin) checkpoint(resource string) ([]kubelet.Entry, error) {
	entries, err := kubelet.ReadCheckpoint(filepath.Join(p.o.kubeletDir, kubelet.CheckpointFile), resource)
	if err != nil {
		p.metrics.Problem("checkpoint")
	}
	return entries, err
}

func (p *plugin) registered(err error) {
	p.metrics.Registered(err)
	if err != nil {
		p.log.Warn("not registered with kubelet; trying again", zap.Error(err))
		return
	}
	p.log.Info("registered with kubelet")
}

func (p *plugin) published(err error) {
	p.metrics.Patched(err)
	if err != nil {
		p.log.Warn("the inventory is not published; trying again", zap.Error(err))
		return
	}
	p.log.Info("published the inventory")
}

// leave tells the scheduler to send nobody here, and returns when kubelet has allocated for those who were on
// their way: without the plugin it would reject them.
func (p *plugin) leave(ctx context.Context) {
	if follows, _ := p.following.Get(); !follows {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := inventory.Withdraw(ctx, p.client, p.o.node, p.current); err != nil {
		p.log.Warn("the inventory is not withdrawn; kubelet may reject pods until the plugin is back", zap.Error(err))
		return
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	// What was placed before the scheduler knew may come a moment later.
	for quiet := 0; quiet < 5; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		pods, err := p.pods(ctx, "")
		if quiet++; err != nil || p.allocator.Awaited(pods) {
			quiet = 0
		}
	}
}

// drift compares pods, records and kubelet's checkpoint from time to time.
func (p *plugin) drift(ctx context.Context) {
	tick := time.NewTicker(p.o.driftEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		entries, err := p.allocator.Checkpoint()
		if err == nil {
			var pods []corev1.Pod
			if pods, err = p.pods(ctx, "0"); err == nil {
				p.metrics.Drift(p.allocator.Drift(pods, entries))
				continue
			}
		}
		if ctx.Err() == nil {
			p.metrics.DriftUnknown()
			p.log.Warn("drift is not known", zap.Error(err))
		}
	}
}

// ready says why kubelet's calls cannot be served.
func (p *plugin) ready(ctx context.Context) func() error {
	return func() error {
		if ctx.Err() != nil {
			return errors.New("shutting down")
		}
		if _, known, _ := p.current.Get(); !known {
			return errors.New("the node's cards are not known yet")
		}
		return errors.Join(p.kubelet.Ready(), p.o.isolation.Check())
	}
}
