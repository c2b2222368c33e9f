//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
	"github.com/phasegpu/phasegpu/gen/await"
)

// sysfs makes Linux's tree for PCI devices: NUMA node by address.
func sysfs(t *testing.T, nodes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for address, node := range nodes {
		if err := os.Mkdir(filepath.Join(dir, address), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, address, "numa_node"), []byte(node+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func card(s *server.Server, index int) *server.Device { return s.Devices[index].(*server.Device) }

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		server    *server.Server
		model     string
		memoryMiB int64
	}{
		"DGX A100": {dgxa100.New(), "Mock NVIDIA A100-SXM4-40GB", 40960},
		"DGX H100": {dgxh100.New(), gpus.H100_SXM5_80GB.Name, int64(gpus.H100_SXM5_80GB.MemoryMB)},
	} {
		t.Run(name, func(t *testing.T) {
			var want []inventory.Card
			nodes := map[string]string{}
			for i := range 8 {
				d := card(c.server, i)
				d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
					return nvml.PciInfo{Domain: 1, Bus: uint32(0xa0 + i), Device: 2}, nvml.SUCCESS
				}
				if i < 7 { // the last is not shown
					nodes[fmt.Sprintf("0001:a%d:02.0", i)] = fmt.Sprint(i/4*2 - 1) // -1 or 1
				}
				numa := i/4*2 - 1
				if i == 7 {
					numa = -1
				}
				want = append(want, inventory.Card{UUID: d.UUID, Index: i, Model: c.model, MemoryMiB: c.memoryMiB,
					NUMA: numa, Healthy: true, MIG: i == 3})
			}
			card(c.server, 3).MigMode = nvml.DEVICE_MIG_ENABLE
			got, err := look(c.server, nil, sysfs(t, nodes))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, cards (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A card that does not answer keeps its place, unhealthy; the others go on.
func TestCardThatDoesNotAnswer(t *testing.T) {
	s := dgxa100.New()
	pci := t.TempDir()
	before, err := look(s, nil, pci)
	if err != nil {
		t.Fatal(err)
	}
	handle := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index == 2 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return handle(index)
	}
	want := slices.Clone(before)
	want[2].Healthy = false
	got, err := look(s, before, pci)
	if err == nil || !strings.Contains(err.Error(), "card 2") {
		t.Errorf("error %v, want one about card 2", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cards (-want +got):\n%s", diff)
	}
	// A card that was never seen is left out.
	if got, _ = look(s, nil, pci); len(got) != 7 {
		t.Errorf("%d cards, want the 7 that answer", len(got))
	}
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	if got, err = look(s, before, pci); got != nil || err == nil {
		t.Errorf("cards %v, error %v: NVML said nothing of any card", got, err)
	}
}

// A card without MIG says so by an error; another error is no answer.
func TestMIGMode(t *testing.T) {
	s := dgxa100.New()
	card(s, 0).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	card(s, 1).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_UNKNOWN }
	got, err := look(s, nil, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), card(s, 1).UUID+": MIG mode") || len(got) != 7 || got[0].MIG {
		t.Errorf("cards %v, error %v", got, err)
	}
}

// fixture is a DGX A100 that is watched, with a stream of events that the test writes.
type fixture struct {
	t      *testing.T
	server *server.Server
	events chan nvml.EventData
	breaks chan nvml.Return
	lost   atomic.Bool // card 5 does not answer

	mu    sync.Mutex
	cards []inventory.Card
	xids  []string
	errs  []error
	sets  int
}

func watched(t *testing.T, o Options) *fixture {
	f := &fixture{t: t, server: dgxa100.New(), events: make(chan nvml.EventData), breaks: make(chan nvml.Return)}
	for i := range 8 {
		card(f.server, i).RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	}
	handle := f.server.DeviceGetHandleByIndexFunc
	f.server.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index == 5 && f.lost.Load() {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return handle(index)
	}
	f.server.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sets++
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				select {
				case e := <-f.events:
					return e, nvml.SUCCESS
				case ret := <-f.breaks:
					return nvml.EventData{}, ret
				case <-time.After(5 * time.Millisecond): // NVML's own timeout
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
			},
		}, nvml.SUCCESS
	}
	o.Observer = f
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watch(ctx, f.server, t.TempDir(), o) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	f.eventually("eight cards", func() bool { return len(f.cards) == 8 && f.sets == 1 })
	return f
}

// Cards implements Observer.
func (f *fixture) Cards(cards []inventory.Card) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cards = cards
	return nil
}

// XID implements Observer.
func (f *fixture) XID(_ string, code uint64, fatal bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.xids = append(f.xids, fmt.Sprintf("%d %t", code, fatal))
}

// Problem implements Observer.
func (f *fixture) Problem(_ string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	await.Until(f.t, what, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return holds()
	})
}

// xid has a card report an XID.
func (f *fixture) xid(index int, code uint64) {
	f.events <- nvml.EventData{Device: f.server.Devices[index], EventType: nvml.EventTypeXidCriticalError,
		EventData: code}
}

func (f *fixture) becomesSick(index int) {
	f.t.Helper()
	f.eventually("a sick card", func() bool { return slices.Equal(f.sick(), []int{index}) })
}

// healthy checks that no card is unhealthy.
func (f *fixture) healthy(after string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if sick := f.sick(); sick != nil {
		f.t.Errorf("cards %v are unhealthy after %s", sick, after)
	}
}

// sick returns the indices of the unhealthy cards; the caller has the lock.
func (f *fixture) sick() []int {
	var indices []int
	for _, c := range f.cards {
		if !c.Healthy {
			indices = append(indices, c.Index)
		}
	}
	return indices
}

// An XID that a program causes leaves the card healthy; a fatal one does not.
func TestXIDs(t *testing.T) {
	f := watched(t, Options{IgnoredXIDs: ApplicationXIDs(), RecoverAfter: time.Hour, ProbeEvery: time.Hour})
	for _, code := range ApplicationXIDs() {
		f.xid(0, code)
	}
	f.eventually("all XIDs", func() bool { return len(f.xids) == len(ApplicationXIDs()) })
	f.healthy("an XID of a program")
	f.xid(3, 79)
	f.becomesSick(3)
	f.mu.Lock()
	defer f.mu.Unlock()
	if last := f.xids[len(f.xids)-1]; last != "79 true" {
		t.Errorf("observed XID %q, want 79, fatal", last)
	}
}

func TestCardRecovers(t *testing.T) {
	f := watched(t, Options{RecoverAfter: 200 * time.Millisecond, ProbeEvery: 10 * time.Millisecond})
	f.xid(3, 79)
	f.becomesSick(3)
	f.eventually("its recovery", func() bool { return f.sick() == nil })
}

func TestLostCardComesBackAndIsHeardAgain(t *testing.T) {
	f := watched(t, Options{RecoverAfter: time.Hour, ProbeEvery: 10 * time.Millisecond})
	f.lost.Store(true)
	f.eventually("a lost card", func() bool { return slices.Equal(f.sick(), []int{5}) && f.sets == 2 })
	f.lost.Store(false)
	f.eventually("its return, with events", func() bool { return f.sick() == nil && f.sets == 3 })
	f.xid(5, 79)
	f.becomesSick(5)
}

// An error of the event stream is not an error of a card.
func TestStreamBreaks(t *testing.T) {
	f := watched(t, Options{RecoverAfter: time.Hour, ProbeEvery: 10 * time.Millisecond})
	f.breaks <- nvml.ERROR_UNKNOWN
	f.eventually("the error", func() bool { return len(f.errs) == 1 })
	f.mu.Lock()
	err := f.errs[0]
	f.mu.Unlock()
	if !strings.Contains(err.Error(), "waiting for events") {
		t.Errorf("observed %v", err)
	}
	f.eventually("a new stream", func() bool { return f.sets == 2 })
	f.healthy("a broken stream")
	f.xid(1, 79)
	f.becomesSick(1)
}

func TestWithoutDriver(t *testing.T) {
	err := Watch(t.Context(), Options{})
	if err == nil || !strings.Contains(err.Error(), "--inventory-file") {
		t.Errorf("error %v, want one that says what to do (this machine has no NVIDIA driver)", err)
	}
}
