package inventory

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/device"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []Card
		err  string
	}{
		"what is absent": {
			text: `{"cards":[{"uuid":"GPU-a","memoryMiB":24576}]}`,
			want: []Card{{UUID: "GPU-a", MemoryMiB: 24576, NUMA: -1, Healthy: true}},
		},
		"all fields": {
			text: `{"cards":[{"uuid":"GPU-a","memoryMiB":1},{"uuid":"GPU-b","model":"NVIDIA A10","memoryMiB":24576,"numa":1,"mig":true,"healthy":false}]}`,
			want: []Card{{UUID: "GPU-a", MemoryMiB: 1, NUMA: -1, Healthy: true},
				{UUID: "GPU-b", Index: 1, Model: "NVIDIA A10", MemoryMiB: 24576, NUMA: 1, MIG: true}},
		},
		"no cards":           {text: `{"cards":[]}`, want: []Card{}},
		"nothing":            {text: `{}`, err: `"cards" is missing`},
		"a misspelt field":   {text: `{"cards":[{"uuid":"a","memory":1}]}`, err: `"memory"`},
		"a unit":             {text: `{"cards":[{"uuid":"a","memoryMiB":"24Gi"}]}`, err: "memoryMiB"},
		"a fraction":         {text: `{"cards":[{"uuid":"a","memoryMiB":1.5}]}`, err: "memoryMiB"},
		"more after the end": {text: `{"cards":[]} x`, err: "after the end"},
		"too large":          {text: strings.Repeat(" ", maxFile+1), err: "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse([]byte(c.text))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one about %q", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("error %v, cards (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestShape(t *testing.T) {
	shape := Shape{Replicas: 4, MemoryScaling: 1.5, Mode: device.MPS}
	got, err := shape.Devices([]Card{
		{UUID: "b", Index: 1, Model: "M", MemoryMiB: 101, NUMA: -1, MIG: true, Healthy: true},
		{UUID: "a", Index: 0, Model: "M", MemoryMiB: 101, NUMA: 1, Healthy: true},
	})
	want := []device.Device{
		{UUID: "a", Family: "NVIDIA", Model: "M", NUMA: 1, Mode: device.MPS, Healthy: true,
			Capacity: device.Amount{Slots: 4, MemoryMiB: 151, Cores: 100}},
		// MIG: listed, and not offered.
		{UUID: "b", Index: 1, Family: "NVIDIA", Model: "M", NUMA: -1, Mode: device.MIG, Healthy: true,
			Capacity: device.Amount{MemoryMiB: 101, Cores: 100}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, devices (-want +got):\n%s", err, diff)
	}
	for name, cards := range map[string][]Card{
		"twice":       {{UUID: "a", MemoryMiB: 1}, {UUID: "a", MemoryMiB: 1}},
		"no memory":   {{UUID: "a"}},
		"too much":    {{UUID: "a", MemoryMiB: device.MaxMemoryMiB}}, // × 1.5
		"no UUID":     {{MemoryMiB: 1}},
		"a separator": {{UUID: "a,b", MemoryMiB: 1}},
	} {
		if devices, err := shape.Devices(cards); err == nil {
			t.Errorf("%s: got %v, want an error", name, devices)
		}
	}
}

// observer passes on what it observes.
type observer struct {
	cards  chan []Card
	errors chan error
}

func (o observer) Cards(cards []Card) error    { o.cards <- cards; return nil }
func (o observer) Problem(_ string, err error) { o.errors <- err }

// A ConfigMap's file is a link to a link to a folder; the kubelet makes a new folder and renames the link.
func TestWatchFileFollowsAConfigMap(t *testing.T) {
	dir := t.TempDir()
	project := func(version, text string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(dir, version), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, version, "node.json"), []byte(text), 0o644))
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	project("..1", `{"cards":[{"uuid":"a","memoryMiB":1}]}`)
	must(t, os.Symlink("..data/node.json", filepath.Join(dir, "node.json")))
	ctx, end := context.WithCancel(context.Background())
	read, failed, done := make(chan []Card, 100), make(chan error, 100), make(chan error, 1)
	go func() {
		done <- WatchFile(ctx, filepath.Join(dir, "node.json"), observer{read, failed})
	}()
	await := func(healthy bool) {
		t.Helper()
		for {
			select {
			case cards := <-read:
				if cards[0].Healthy == healthy {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("healthy=%t was not read", healthy)
			}
		}
	}
	await(true)
	project("..2", `{"cards":[{"uuid":"a","memoryMiB":1,"healthy":false}]}`)
	await(false)
	project("..3", `{"cards":`)
	select {
	case <-failed:
	case <-time.After(20 * time.Second):
		t.Fatal("a broken file was not reported")
	}
	project("..4", `{"cards":[{"uuid":"a","memoryMiB":1}]}`)
	await(true)
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWatchFileNeedsAFileToBeginWith(t *testing.T) {
	err := WatchFile(t.Context(), filepath.Join(t.TempDir(), "absent.json"), observer{})
	if err == nil || !strings.Contains(err.Error(), "absent.json") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
