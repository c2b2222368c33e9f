package signals

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/controlplane"
	"github.com/phasegpu/phasegpu/e2e/process"
)

// binary is one of phasegpu's, and what of its metrics must have come before all have.
type binary struct {
	module, name, title string
	flags               func(dir string) []string
	address             string // flag that takes the address of /metrics
	until               []string
}

func binaries() []binary {
	return []binary{
		{"extender", "phasegpu-extender", "Extender", func(string) []string {
			return []string{"--listen=127.0.0.1:0", "--lease-name="}
		}, "--metrics-listen", []string{
			"phasegpu_gate_shut_seconds", "phasegpu_device_closed", "phasegpu_quota_limit",
		}},
		{"webhook", "phasegpu-webhook", "Webhook", func(string) []string {
			return []string{"--listen=127.0.0.1:0", "--drain=0s"}
		}, "--health-listen", nil},
		{"deviceplugin", "phasegpu-device-plugin", "Device plugin", func(dir string) []string {
			return []string{"--node=" + nodeName, "--kubelet-dir=" + dir, "--isolation=none", "--drift-every=50ms",
				"--inventory-file=" + filepath.Join(dir,
					"inventory.json"), "--refit-url=https://localhost:1", "--refit-ca=none", "--refit-token=none"}
		}, "--metrics-listen", []string{"phasegpu_device_plugin_drift_containers", "phasegpu_device_plugin_last_xid"}},
		{"numarefit", "phasegpu-numarefit", "Refit service", func(string) []string {
			return []string{"--listen=127.0.0.1:0", "--drain=0s"}
		}, "--health-listen", nil},
	}
}

// family is a metric as it is served.
type family struct {
	Name, Type, Help string
	Labels           []string                   // in the order in which they are served, without le
	Values           map[string]map[string]bool // of each label
}

// served returns, for each binary in order, what it serves. The binaries are built and run once.
var served = sync.OnceValues(func() ([][]family, error) { return scrapeAll(context.Background()) })

func metrics(t *testing.T) [][]family {
	t.Helper()
	all, err := served()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func scrapeAll(ctx context.Context) ([][]family, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "phasegpu-signals-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return nil, err
	}
	defer cp.Stop()
	if err := populate(ctx, cp); err != nil {
		return nil, err
	}
	for file, text := range map[string]string{
		"inventory.json":              `{"cards":[{"uuid":"GPU-0","memoryMiB":24576}]}`,
		"kubelet_internal_checkpoint": `{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":1}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	var all [][]family
	for _, b := range binaries() {
		path := filepath.Join(dir, b.name)
		build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/"+b.name)
		build.Dir = filepath.Join(root, b.module)
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building %s: %w\n%s", b.name, err, out)
		}
		text, err := b.scrape(ctx, path, dir, cp.AdminKubeconfig())
		if err != nil {
			return nil, err
		}
		families, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		all = append(all, families)
	}
	return all, nil
}

// scrape runs the binary until it serves all of its metrics.
func (b *binary) scrape(ctx context.Context, path, dir, kubeconfig string) (text string, err error) {
	err = process.WithPorts(1, func(ports []int) error {
		address := process.Loopback(ports[0])
		p := process.Process{
			Name: b.name, Path: path, Log: filepath.Join(dir, b.name+".log"),
			Args: append(b.flags(dir), "--kubeconfig="+kubeconfig, b.address+"="+address),
			Ready: func(ctx context.Context) error {
				page, err := process.Get(ctx, http.DefaultClient, "http://"+address+"/metrics")
				if err != nil {
					return err
				}
				text = string(page)
				for _, name := range b.until {
					if !strings.Contains(text, "\n"+name+"{") {
						return fmt.Errorf("there is no %s yet", name)
					}
				}
				return nil
			},
		}
		if err := p.Start(ctx); err != nil {
			return err
		}
		return p.Stop(ctx)
	})
	return text, err
}

var label = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"[,}]`)

// parse reads Prometheus' text format as far as client_golang writes it: each metric's help, type, series.
func parse(text string) ([]family, error) {
	var all []family
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			all = append(all, family{Name: name, Help: help, Values: map[string]map[string]bool{}})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("series before any metric: %s", line)
		}
		f := &all[len(all)-1]
		if rest, ok := strings.CutPrefix(line, "# TYPE "+f.Name+" "); ok {
			f.Type = rest
			continue
		}
		if !strings.HasPrefix(line, f.Name) {
			return nil, errors.New("not understood: " + line)
		}
		for _, match := range label.FindAllStringSubmatch(line, -1) {
			if match[1] == "le" {
				continue
			}
			if f.Values[match[1]] == nil {
				f.Labels = append(f.Labels, match[1])
				f.Values[match[1]] = map[string]bool{}
			}
			f.Values[match[1]][match[2]] = true
		}
	}
	return all, nil
}
