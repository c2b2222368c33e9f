package phase

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

const (
	i = Init
	s = Sidecar
	a = App
)

// Design section 1: one phase per init container, in which it and the sidecars declared before it are
// alive, and the steady state of all apps and all sidecars.
func TestPhases(t *testing.T) {
	for _, c := range []struct {
		name  string
		pod   Pod
		alive [][]int // by phase
		inits []int   // by phase, the position of its init container
	}{
		{"no container", Pod{}, [][]int{nil}, []int{-1}},
		{"apps only", Pod{a, a}, [][]int{{0, 1}}, []int{-1}},
		{"inits and app", Pod{i, i, a}, [][]int{{0}, {1}, {2}}, []int{0, 1, -1}},
		{"sidecar first", Pod{s, i, a}, [][]int{{0, 1}, {0, 2}}, []int{1, -1}},
		{"init first", Pod{i, s, a}, [][]int{{0}, {1, 2}}, []int{0, -1}},
		{"sidecar between", Pod{i, s, i, s, a, a}, [][]int{{0}, {1, 2}, {1, 3, 4, 5}}, []int{0, 2, -1}},
		{"all sidecars: steady from the start", Pod{s, s, a}, [][]int{{0, 1, 2}}, []int{-1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.pod.Len() != len(c.alive) || c.pod.Steady() != len(c.alive)-1 {
				t.Fatalf("%d phases, steady is %d", c.pod.Len(), c.pod.Steady())
			}
			for k := range c.pod.Len() {
				var alive []int
				for position := range c.pod {
					if c.pod.Alive(k, position) {
						alive = append(alive, position)
					}
				}
				if !reflect.DeepEqual(alive, c.alive[k]) {
					t.Errorf("alive in phase %d: %v, want %v", k, alive, c.alive[k])
				}
				if got := c.pod.InitPosition(k); got != c.inits[k] {
					t.Errorf("phase %d is that of container %d, want %d", k, got, c.inits[k])
				}
			}
			if c.pod.InitPosition(c.pod.Len()) != -1 || c.pod.InitPosition(None) != -1 {
				t.Error("there is an init container beyond the steady state")
			}
		})
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		name   string
		pod    Pod
		memory []int64
		want   []int64 // from phase 0, 1, …
	}{
		{"inits run one after the other", Pod{i, i, i, a}, []int64{10000, 10000, 10000, 4000},
			[]int64{10000, 10000, 10000, 4000}},
		{"a sidecar runs beside the app", Pod{s, a}, []int64{4000, 4000}, []int64{8000}},
		{"sidecar after an init", Pod{i, s, i, a}, []int64{20000, 2000, 5000, 10000}, []int64{20000, 12000, 12000}},
		{"sidecar first", Pod{s, i, a}, []int64{2000, 20000, 10000}, []int64{22000, 12000}},
		{"two inits and an app", Pod{i, i, a}, []int64{20000, 8000, 5000}, []int64{20000, 8000, 5000}},
		{"apps add up", Pod{i, a, a}, []int64{1, 16000, 16000}, []int64{32000, 32000}},
		{"a later phase may be the largest", Pod{i, i, a}, []int64{1, 3, 2}, []int64{3, 3, 2}},
		{"all sidecars", Pod{s, s, a}, []int64{1, 2, 4}, []int64{7}},
		{"no app", Pod{i}, []int64{5}, []int64{5, 0}},
		{"no container", Pod{}, nil, []int64{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			amount := func(position int) device.Amount { return device.Amount{MemoryMiB: c.memory[position]} }
			for from, want := range append(c.want, 0, 0) { // nothing remains beyond the steady state
				if got, err := c.pod.Fold(from, amount); err != nil || got != (device.Amount{MemoryMiB: want}) {
					t.Errorf("from %d: %v, %v, want %d MiB", from, got, err, want)
				}
			}
			if got, err := c.pod.Fold(None, amount); err != nil || !got.IsZero() {
				t.Errorf("from None: %v, %v", got, err)
			}
		})
	}
}

// Every dimension has its own largest phase.
func TestFoldDimensionsApart(t *testing.T) {
	amounts := []device.Amount{{Slots: 2, MemoryMiB: 100, Cores: 10}, {Slots: 1, MemoryMiB: 300, Cores: 20},
		{Slots: 1, MemoryMiB: 200, Cores: 30}}
	got, err := Pod{i, i, a}.Fold(0, func(position int) device.Amount { return amounts[position] })
	if want := (device.Amount{Slots: 2, MemoryMiB: 300, Cores: 30}); err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestFoldOverflow(t *testing.T) {
	huge := func(int) device.Amount { return device.Amount{MemoryMiB: math.MaxInt64} }
	for _, c := range []struct {
		name string
		pod  Pod
		from int
		over bool
	}{
		{"sidecar and init", Pod{s, i}, 0, true},
		{"the same, after that init", Pod{s, i}, 1, false},
		{"two sidecars", Pod{s, s}, 0, true},
		{"two apps", Pod{a, a}, 0, true},
		{"sidecar and app", Pod{s, a}, 0, true},
		{"inits never meet", Pod{i, i, a}, 0, false},
		{"nothing remains", Pod{s, s, a}, None, false},
	} {
		if _, err := c.pod.Fold(c.from, huge); errors.Is(err, device.ErrOverflow) != c.over || (err != nil) != c.over {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The fold over phases is the maximum over all that can run together, by enumeration.
func TestFoldProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		p := randomPod(r, 5)
		amounts := make([]device.Amount, len(p))
		for k := range amounts {
			amounts[k] = device.Amount{Slots: r.Int64N(3), MemoryMiB: r.Int64N(100), Cores: r.Int64N(101)}
		}
		for from := range p.Len() + 2 {
			got, err := p.Fold(from, func(position int) device.Amount { return amounts[position] })
			if want := naiveFold(p, from, amounts); err != nil || got != want {
				t.Fatalf("seed %d: %v of %v from %d is %v, %v, want %v", seed, p, amounts, from, got, err, want)
			}
			for position := range p {
				lives := false
				for _, time := range naiveTimes(p, from) {
					lives = lives || naiveLives(p, position, time)
				}
				if p.remains(from, position) != lives {
					t.Fatalf("seed %d: container %d of %v remains from %d: %v", seed, position, p, from, !lives)
				}
			}
		}
	}
}

func TestClassString(t *testing.T) {
	for class, want := range map[Class]string{Init: "init", Sidecar: "sidecar", App: "app"} {
		if class.String() != want {
			t.Errorf("%d: %q, want %q", class, class, want)
		}
	}
}
