package main

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/metrics"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/nvml"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/process"
)

const (
	// socket is the plugin's in kubelet's folder.
	socket = "phasegpu-nvidia.sock"
	// readTimeout bounds one read of the node's pods.
	readTimeout = 15 * time.Second
	// leaveTimeout bounds how long kubelet is served after ctx has ended, for pods on their way here.
	leaveTimeout = 4 * time.Second
)

// countResource is the resource that kubelet allocates.
var countResource = string(classify.Family(inventory.Family).Count)

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.Version {
		return process.PrintVersion(name, stdout)
	}
	log, err := o.Logger(stderr)
	if err != nil {
		return err
	}
	client, err := o.Client(name, 0, 0)
	if err != nil {
		return err
	}
	listeners, err := process.Listen(ctx, o.listen)
	if err != nil {
		return err
	}
	return serve(ctx, o, client, listeners[0], log)
}

// plugin is the parts and what connects them.
type plugin struct {
	o         *options
	client    kubernetes.Interface
	current   *inventory.Current
	allocator *allocate.Allocator
	following *kubelet.Following
	kubelet   *kubelet.Server
	metrics   *metrics.Metrics
	log       *zap.Logger
}

// serve runs all parts until ctx ends or one of them fails.
func serve(
	ctx context.Context, o *options, client kubernetes.Interface, listener net.Listener, log *zap.Logger,
) error {
	defer listener.Close()
	// A node without the library would start containers without limits.
	if err := o.isolation.Check(); err != nil {
		return err
	}
	registry := process.NewRegistry()
	p := &plugin{o: o, client: client, current: &inventory.Current{}, metrics: metrics.New(registry), log: log}
	p.allocator = &allocate.Allocator{
		Node: o.node, Resource: countResource, State: p, Isolation: o.isolation, CDIKind: o.cdiKind,
	}
	if o.refit != nil {
		p.allocator.Refit = metrics.ObserveRefit(o.refit, p.metrics, log)
	}
	answers := &kubelet.Plugin{
		Devices:   p.current,
		Allocator: metrics.Observed{Allocator: p.allocator, Metrics: p.metrics, Log: log},
	}
	p.following = &answers.Following
	p.kubelet = &kubelet.Server{
		Dir: o.kubeletDir, Socket: socket, Resource: countResource, Observer: p, Plugin: answers,
	}

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// Kubelet is served for a little longer than everything else.
	serving, left := context.WithCancel(context.WithoutCancel(ctx))
	defer left()
	health := process.Server{Name: "metrics", Listener: listener, Handler: process.Health(ctx, p.ready, registry)}
	var running sync.WaitGroup
	for _, part := range []func(context.Context) error{
		p.cards,
		func(context.Context) error { return p.kubelet.Run(serving) },
		func(ctx context.Context) error {
			defer left()
			inventory.Publish(ctx, client, o.node, p.current, p.following, p)
			p.leave(context.WithoutCancel(ctx))
			return nil
		},
		func(ctx context.Context) error { p.drift(ctx); return nil },
		func(ctx context.Context) error {
			return process.Serve(ctx, log, process.Shutdown{Grace: leaveTimeout}, health)
		},
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
	if p.o.inventoryFile != "" {
		return inventory.WatchFile(ctx, p.o.inventoryFile, p)
	}
	return nvml.Watch(ctx, nvml.Options{
		IgnoredXIDs: p.o.ignoredXIDs, RecoverAfter: p.o.recoverAfter, ProbeEvery: p.o.probeEvery, Observer: p,
	})
}

// Cards implements inventory.Observer and nvml.Observer.
func (p *plugin) Cards(cards []inventory.Card) error {
	devices, err := p.o.shape.Devices(cards)
	if err != nil {
		return err
	}
	p.current.Set(devices)
	p.metrics.Devices(devices)
	return nil
}

// Problem implements the observers of all parts: it counts and logs what goes wrong without an error for a caller.
func (p *plugin) Problem(about string, err error) {
	p.metrics.Problem(about)
	p.log.Warn("going on in spite of an error", zap.String("about", about), zap.Error(err))
}

// XID implements nvml.Observer.
func (p *plugin) XID(uuid string, code uint64, fatal bool) {
	p.metrics.XID(uuid, code, fatal)
	p.log.Warn("a card reported an XID",
		zap.String("device", uuid), zap.Uint64("xid", code), zap.Bool("fatal", fatal))
}

// Pods implements allocate.State.
func (p *plugin) Pods(ctx context.Context) ([]corev1.Pod, error) { return p.pods(ctx, "") }

// Devices implements allocate.State.
func (p *plugin) Devices() []device.Device {
	devices, _, _ := p.current.Get()
	return devices
}

// pods reads the pods bound to this node, at a resourceVersion: "" is consistent, "0" is from the API server's cache.
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
		// The request may have timed out while the whole node was paused. Kubelet would reject the pod for good.
		list, err = read()
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Checkpoint implements allocate.State.
func (p *plugin) Checkpoint() ([]kubelet.Entry, error) {
	entries, err := kubelet.ReadCheckpoint(filepath.Join(p.o.kubeletDir, kubelet.CheckpointFile), countResource)
	if err != nil {
		p.metrics.Problem("checkpoint")
	}
	return entries, err
}

// Registered implements kubelet.Observer.
func (p *plugin) Registered(err error) {
	p.metrics.Registered(err)
	p.done("registering with kubelet", err)
}

// Published implements inventory.Publisher.
func (p *plugin) Published(err error) {
	p.metrics.Patched(err)
	p.done("publishing the inventory", err)
}

// done logs a step that is repeated until it succeeds.
func (p *plugin) done(what string, err error) {
	if err != nil {
		p.log.Warn(what+" failed, trying again", zap.Error(err))
		return
	}
	p.log.Info(what + " succeeded")
}

// leave withdraws the inventory, so that the scheduler places no more pods here, and returns when kubelet has allocated
// for the pods that were on their way: without the plugin it would reject them.
func (p *plugin) leave(ctx context.Context) {
	if follows, _ := p.following.Get(); !follows {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := inventory.Withdraw(ctx, p.client, p.o.node, p.current); err != nil {
		p.log.Warn("the inventory is not withdrawn: kubelet may reject pods until the plugin is back", zap.Error(err))
		return
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	// A pod that was placed before the scheduler saw it may come a moment later.
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
		entries, err := p.Checkpoint()
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

// ready explains why kubelet's calls cannot be served.
func (p *plugin) ready(context.Context) error {
	if _, known, _ := p.current.Get(); !known {
		return errors.New("the node's cards are not known yet")
	}
	return errors.Join(p.kubelet.Ready(), p.o.isolation.Check())
}
