package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/phase"
)

// limit is a quota on NVIDIA memory in namespace ns.
func limit(name string, mib int64) Quota {
	return Quota{Namespace: "ns", Name: name,
		Limits: []Limit{{Resource: "limits.nvidia.com/gpumem", Family: "NVIDIA", Max: mib}}}
}

// asks is what a pod would be charged.
func asks(mib int64) map[string]Charge { return map[string]Charge{"NVIDIA": {MemoryMiB: mib}} }

// quotaError returns a *QuotaError's numbers, and fails the test for any other error.
func quotaError(t *testing.T, err error) QuotaError {
	t.Helper()
	var q *QuotaError
	if !errors.As(err, &q) {
		t.Fatalf("error %v, want a *QuotaError", err)
	}
	return *q
}

func TestQuotaAtAssumeAndCheckAgree(t *testing.T) {
	classes := phase.Pod{phase.Init, phase.App}
	for _, test := range []struct {
		name       string
		quotas     []Quota
		used       int64 // by another pod
		init, app  int64
		quota      string // that refuses, "" when none
		room       int64
		unreadable bool
	}{
		{name: "no quota", init: 30000, app: 20000},
		{name: "other namespace", quotas: []Quota{{Namespace: "other", Name: "q", Limits: limit("", 0).Limits}},
			init: 30000, app: 1},
		{name: "other family", quotas: []Quota{{Namespace: "ns", Name: "q",
			Limits: []Limit{{Family: "DCU", Max: 0}}}}, init: 30000, app: 1},
		{name: "largest phase, not the sum", quotas: []Quota{limit("q", 40000)}, init: 30000, app: 20000},
		{name: "exactly full", quotas: []Quota{limit("q", 40000)}, used: 10000, init: 30000, app: 20000},
		{name: "one too many", quotas: []Quota{limit("q", 40000)}, used: 10001, init: 30000, app: 20000, quota: "q"},
		{name: "limit 0 blocks", quotas: []Quota{limit("q", 0)}, init: 1, app: 0, quota: "q"},
		{name: "limit 0 does not hold who asks nothing", quotas: []Quota{limit("q", 0)}},
		{name: "absent does not limit", quotas: []Quota{{Namespace: "ns", Name: "q"}}, init: 30000, app: 1},
		{name: "tightest rules", quotas: []Quota{limit("a", 40000), limit("b", 20000), limit("c", 29999)},
			init: 30000, app: 1, quota: "b"},
		{
			name: "cores",
			quotas: []Quota{{Namespace: "ns", Name: "q",
				Limits: []Limit{{Family: "NVIDIA", Dimension: Cores, Max: 49}}}},
			init: 1, app: 1, quota: "q",
		},
		{name: "unreadable pod and a limit", quotas: []Quota{limit("q", 40000)}, unreadable: true, init: 1, app: 1,
			quota: "q"},
		{name: "unreadable pod and no limit", unreadable: true, init: 1, app: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := New()
			b.SetNode(node("n", 1<<20, "G", "H"))
			for _, q := range test.quotas {
				b.SetQuota(q)
			}
			b.Observe(pod("used", "elsewhere", phase.Pod{a}, on("X", test.used)))
			if test.unreadable {
				bad := pod("bad", "elsewhere", phase.Pod{a})
				bad.Unreadable = "garbage"
				b.Observe(bad)
			}
			p := pod("p", "n", classes)
			allocation := device.Allocation{on("G", test.init), on("H", test.app)}
			allocation[0][0].Amount.Cores = 50
			_, _, err := b.Assume(p, func(*View) (device.Allocation, error) { return allocation, nil })
			charge := map[string]Charge{"NVIDIA": {Devices: 1, MemoryMiB: max(test.init, test.app), Cores: 50}}
			check := b.CheckQuota("ns", "p", Scope{}, charge)
			if test.quota == "" {
				if err != nil || check != nil {
					t.Fatalf("refused: %v; %v", err, check)
				}
				return
			}
			if b.Pod("p") != nil {
				t.Error("the refused pod is booked")
			}
			got := quotaError(t, err)
			if got != quotaError(t, check) {
				t.Errorf("Assume says %v, CheckQuota %v", err, check)
			}
			if got.Quota != test.quota || (got.Unreadable != "") != test.unreadable {
				t.Errorf("refused by %+v, want quota %s", got, test.quota)
			}
		})
	}
}

func TestQuotaWithoutTheOldAssumption(t *testing.T) {
	b := New()
	b.SetNode(node("n", 1<<20, "G"))
	b.SetQuota(limit("q", 10000))
	p := pod("p", "n", phase.Pod{a})
	mustAssume(t, b, p, put("G", 6000, p.Classes))
	mustAssume(t, b, p, put("G", 10000, p.Classes))
	_, _, err := b.Assume(p, put("G", 10001, p.Classes))
	if got := quotaError(t, err); got.Used != 0 || got.Asked != 10001 {
		t.Errorf("%+v", got)
	}
	charged(t, b, 10000)
}

func TestQuotaErrorNamesWhatToDo(t *testing.T) {
	b := New()
	b.SetQuota(limit("gpu", 24576))
	b.Observe(pod("used", "n", phase.Pod{a}, on("X", 10000)))
	err := b.CheckQuota("ns", "", Scope{}, asks(30720))
	const want = "namespace ns, quota gpu, limits.nvidia.com/gpumem: asked 30720 MiB, used 10000 MiB of 24576 MiB: " +
		"ask for less, wait until pods there release it, or raise the quota"
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v, want\n%s", err, want)
	}
	line := limit("gpu", 0)
	line.Limits[0].Unreadable = "16Gi means bytes"
	b.SetQuota(line)
	const mend = "namespace ns, quota gpu, limits.nvidia.com/gpumem cannot be read, so it allows nothing until the quota is mended: 16Gi means bytes"
	if err := b.CheckQuota("ns", "", Scope{}, asks(1)); err == nil || err.Error() != mend {
		t.Errorf("error\n%v, want\n%s", err, mend)
	}
	b.SetQuota(limit("gpu", 24576))
	bad := pod("bad", "n", phase.Pod{a})
	bad.Unreadable = "entry 1: garbage"
	b.Observe(bad)
	err = b.CheckQuota("ns", "", Scope{}, asks(1))
	if err == nil || !strings.Contains(err.Error(), "pod ns/bad: entry 1: garbage") || !strings.Contains(err.Error(),
		"repair or delete") {
		t.Errorf("error %v, want the unreadable pod and what to do", err)
	}
	if err := b.CheckQuota("ns", "bad", Scope{}, asks(1)); err != nil {
		t.Errorf("the pod that is unreadable itself: %v", err)
	}
}

func TestQuotaFollowsPhases(t *testing.T) { // limits. keys: the next pod fits after the init
	b := New()
	b.SetQuota(limit("q", 24576))
	p := pod("p", "n", phase.Pod{i, a}, on("G", 20000), on("G", 4000))
	b.Observe(p)
	if got := quotaError(t, b.CheckQuota("ns", "next", Scope{}, asks(20000))); got.Used != 20000 || got.Asked != 20000 {
		t.Errorf("while the init remains: %+v", got)
	}
	if err := b.CheckQuota("ns", "p", Scope{}, asks(24576)); err != nil {
		t.Errorf("a pod stands in its own way: %v", err)
	}
	b.Observe(at(p, 1))
	if err := b.CheckQuota("ns", "next", Scope{}, asks(20000)); err != nil {
		t.Errorf("after the init: %v", err)
	}
	b.Observe(at(p, 0)) // it runs again: above the limit if the next had come, and never clamped
	b.Observe(pod("next", "n", phase.Pod{a}, on("G", 20000)))
	if got := b.Namespace("ns").Usage(); len(got) != 1 || got[0].Used != 40000 || got[0].Limit.Max != 24576 {
		t.Errorf("usage %+v", got)
	}
}

func TestQuotaScopes(t *testing.T) {
	b := New()
	q := limit("high", 1000)
	q.Selects = func(s Scope) bool { return s.PriorityClass == "high" }
	b.SetQuota(q)
	high := pod("high", "n", phase.Pod{a}, on("G", 900))
	high.Scope.PriorityClass = "high"
	b.Observe(high)
	b.Observe(pod("low", "n", phase.Pod{a}, on("G", 5000)))
	if err := b.CheckQuota("ns", "", Scope{}, asks(5000)); err != nil {
		t.Errorf("a pod outside the scope: %v", err)
	}
	if got := quotaError(t, b.CheckQuota("ns", "", high.Scope, asks(101))); got.Used != 900 {
		t.Errorf("in the scope: %+v", got)
	}
	// An unreadable pod outside the scope does not stand in the way; moved into it, it does.
	bad := pod("bad", "n", phase.Pod{a})
	bad.Unreadable = "garbage"
	b.Observe(bad)
	if err := b.CheckQuota("ns", "", high.Scope, asks(100)); err != nil {
		t.Errorf("an unreadable pod outside the scope: %v", err)
	}
	bad.Scope = high.Scope
	b.Observe(bad)
	if got := quotaError(t, b.CheckQuota("ns", "", high.Scope, asks(100))); got.Unreadable == "" {
		t.Errorf("an unreadable pod in the scope: %+v", got)
	}
}

func TestQuotaSettledByTheDevice(t *testing.T) { // a percentage is charged as the MiB it became
	b := New()
	b.SetNode(node("n", 40960, "G"))
	b.SetQuota(limit("q", 20479))
	request := device.Request{Family: "NVIDIA", Devices: 1, MemoryPercent: 50}
	_, _, err := b.Assume(pod("p", "n", phase.Pod{a}), func(v *View) (device.Allocation, error) {
		d := v.Devices[0]
		return device.Allocation{{{UUID: d.UUID, Family: d.Family, Amount: request.On(d.Capacity.MemoryMiB)}}}, nil
	})
	if got := quotaError(t, err); got.Asked != 20480 {
		t.Errorf("%+v", got)
	}
}

func TestSeveralQuotas(t *testing.T) {
	b := New()
	b.SetQuota(limit("b", 2000))
	b.SetQuota(limit("a", 3000))
	b.SetQuota(limit("c", 1000))
	for _, step := range []struct {
		do    func() Delta
		max   int64
		frees bool
	}{
		{func() Delta { return b.RemoveQuota("ns", "a") }, 1000, true},
		{func() Delta { return b.RemoveQuota("ns", "c") }, 2000, true},
		{func() Delta { return b.SetQuota(limit("b", 1500)) }, 1500, false},
		{func() Delta { return b.SetQuota(limit("b", 1800)) }, 1800, true},
	} {
		if d := step.do(); d.Namespace != "ns" || !d.Changed || d.Released != step.frees {
			t.Errorf("delta %+v, want released %t", d, step.frees)
		}
		if err := b.CheckQuota("ns", "", Scope{}, asks(step.max)); err != nil {
			t.Errorf("%d MiB: %v", step.max, err)
		}
		if err := b.CheckQuota("ns", "", Scope{}, asks(step.max+1)); err == nil {
			t.Errorf("%d MiB are allowed", step.max+1)
		}
	}
	if d := b.SetQuota(limit("b", 1800)); d.Changed {
		t.Errorf("the same quota again: %+v", d)
	}
	b.RemoveQuota("ns", "b")
	if b.Namespace("ns") != nil {
		t.Error("a namespace without pods and quotas stays in the book")
	}
}

// Without pods, a quota has the room that a recomputation without them would find.
func TestCheckQuotaWithout(t *testing.T) {
	b := New()
	b.SetNode(node("n", 1<<20, "G"))
	b.SetQuota(limit("q", 1000))
	b.Observe(pod("u1", "n", phase.Pod{a}, on("G", 300)))
	b.Observe(pod("u2", "n", phase.Pod{a}, on("G", 600)))
	other := pod("u3", "n", phase.Pod{a}, on("G", 5000))
	other.Namespace = "other"
	b.Observe(other)
	bad := pod("bad", "n", phase.Pod{a})
	bad.Unreadable = "garbage"
	for _, test := range []struct {
		gone string
		room int64
	}{{"", 100}, {"u1", 400}, {"u2", 700}, {"u1 u2", 1000}, {"u1 u1", 400}, {"u3", 100}, {"nobody", 100}} {
		gone := strings.Fields(test.gone)
		if err := b.CheckQuotaWithout("ns", gone, Scope{}, asks(test.room)); err != nil {
			t.Errorf("without %q: %v", test.gone, err)
		}
		if got := quotaError(t, b.CheckQuotaWithout("ns", gone, Scope{},
			asks(test.room+1))); got.Used != 1000-test.room {
			t.Errorf("without %q %d are used, want %d", test.gone, got.Used, 1000-test.room)
		}
	}
	b.Observe(bad)
	if err := b.CheckQuotaWithout("ns", []string{"u1"}, Scope{}, asks(1)); err == nil {
		t.Error("beside a pod that cannot be read the quota is not proven")
	}
	if err := b.CheckQuotaWithout("ns", []string{"u1", "bad"}, Scope{}, asks(400)); err != nil {
		t.Errorf("without the pod that cannot be read: %v", err)
	}
	if err := b.CheckQuotaWithout("elsewhere", []string{"u1"}, Scope{}, asks(1<<40)); err != nil {
		t.Errorf("where no quota is: %v", err)
	}
	if err := b.CheckQuota("ns", "u1", Scope{}, asks(1)); err == nil {
		t.Error("the book itself has changed")
	}
}
