package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/isolation"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/nvml"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/process"
)

// options are the command's flags.
type options struct {
	process.Options
	node          string
	kubeletDir    string
	inventoryFile string
	shape         inventory.Shape
	isolation     isolation.Isolation
	cdiKind       string
	refit         *refitclient.Client // nil for none
	ignoredXIDs   []uint64
	recoverAfter  time.Duration
	probeEvery    time.Duration
	driftEvery    time.Duration
	listen        string
}

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{ignoredXIDs: nvml.ApplicationXIDs()}
	var mode, hamiCoreDir, mpsDir string
	var service refitclient.Client
	f := o.Flags(name, out)
	f.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "`name` of this node (default: NODE_NAME of the environment)")
	f.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet/device-plugins",
		"kubelet's `folder` of plugin sockets and of its device checkpoint")
	f.StringVar(&o.inventoryFile, "inventory-file", "",
		"JSON `file` that declares the node's cards, read again when it changes; default: ask NVML")
	f.IntVar(&o.shape.Replicas, "replicas", 10, "`number` of containers that can share a card")
	f.Float64Var(&o.shape.MemoryScaling, "memory-scaling", 1,
		"`ratio` of the memory offered to the memory of a card; above 1 oversubscribes it")
	f.StringVar(&mode, "isolation", "hami-core", "`mode` that holds containers to their shares: hami-core, mps or none")
	f.StringVar(&hamiCoreDir, "hami-core-dir", "/usr/local/vgpu",
		"`folder` on the node with libvgpu.so and ld.so.preload, mounted here at the same path")
	f.StringVar(&mpsDir, "mps-dir", "/run/nvidia/mps",
		"`folder` on the node with the MPS daemon's pipe/ and shm/, mounted here at the same path")
	f.StringVar(&o.cdiKind, "cdi-kind", "", "CDI `kind`, such as nvidia.com/gpu, to name devices to the container "+
		"runtime "+
		"as KIND=UUID; default: use NVIDIA_VISIBLE_DEVICES")
	f.StringVar(&service.URL, "refit-url", "", "`https://HOST` of the refit service (numarefit), for pods with the "+
		"annotation hami.io/numa-alignment; default: records never change")
	f.StringVar(&service.CAFile, "refit-ca", "",
		"PEM `file` with the CA of the refit service's certificate, read at every call")
	f.StringVar(&service.TokenFile, "refit-token", "",
		"`file` with a token of this service account for the audience phasegpu-numarefit, read at every call")
	ignored := strings.Trim(fmt.Sprint(o.ignoredXIDs), "[]")
	f.Func("ignored-xids", "comma-separated `XIDs` that do not make a card unhealthy (default "+ignored+")",
		func(text string) (err error) {
			o.ignoredXIDs, err = parseXIDs(text)
			return err
		})
	f.DurationVar(&o.recoverAfter, "recover-after", 10*time.Minute,
		"`time` after its last fatal XID until a card that answers is offered again")
	f.DurationVar(&o.probeEvery, "probe-every", 30*time.Second, "`time` between two probes of every card")
	f.DurationVar(&o.driftEvery, "drift-every", time.Minute,
		"`time` between two comparisons of pods, records and kubelet's checkpoint")
	f.StringVar(&o.listen, "metrics-listen", ":8080", "`address` of /healthz, /readyz and /metrics (HTTP)")
	if err := process.Parse(f, args); err != nil || o.Version {
		return o, err
	}
	switch mode {
	case "hami-core":
		o.isolation = isolation.HAMiCore{Dir: hamiCoreDir, Oversubscribe: o.shape.MemoryScaling > 1}
	case "mps":
		o.isolation = isolation.MPS{Dir: mpsDir}
	case "none":
		o.isolation = isolation.None{}
	default:
		return nil, fmt.Errorf("--isolation %q: want hami-core, mps or none", mode)
	}
	o.shape.Mode = o.isolation.Mode()
	if service != (refitclient.Client{}) {
		if err := service.Check(); err != nil {
			return nil, fmt.Errorf("--refit-url, --refit-ca, --refit-token: %w", err)
		}
		o.refit = &service
	}
	return o, o.check()
}

func (o *options) check() error {
	switch {
	case o.node == "":
		return errors.New("--node is empty: set it, or NODE_NAME, to this node's name (spec.nodeName by the downward " +
			"API)")
	case o.shape.Replicas < 1 || o.shape.Replicas > 1000:
		return fmt.Errorf("--replicas %d: want 1 to 1000", o.shape.Replicas)
	case !(o.shape.MemoryScaling > 0 && o.shape.MemoryScaling <= 10): // NaN is neither
		return fmt.Errorf("--memory-scaling %v: want more than 0, at most 10", o.shape.MemoryScaling)
	case o.probeEvery <= 0 || o.driftEvery <= 0 || o.recoverAfter < 0:
		return errors.New("--probe-every and --drift-every must be above 0, --recover-after not below")
	}
	return nil
}

func parseXIDs(text string) ([]uint64, error) {
	var codes []uint64
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		code, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("XID %q is no number", part)
		}
		codes = append(codes, code)
	}
	return codes, nil
}
