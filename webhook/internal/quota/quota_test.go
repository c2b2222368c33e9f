package quota

import (
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

// newBook returns books with these quotas and bound pods.
func newBook(t *testing.T, quotas []string, bound []string) *ledger.Book {
	t.Helper()
	book := ledger.New()
	for _, text := range quotas {
		q, err := kube.Quota(read[corev1.ResourceQuota](t, text))
		if err != nil {
			t.Fatal(err)
		}
		book.SetQuota(q)
	}
	for _, text := range bound {
		book.Observe(kube.LedgerPod(read[corev1.Pod](t, text), phase.PerInit))
	}
	return book
}

// check returns the refusal of a pod, "" when it passes.
func check(t *testing.T, book *ledger.Book, text string) string {
	t.Helper()
	pod := read[corev1.Pod](t, text)
	requests, err := kube.Requests(&pod.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(book, pod, requests); err != nil {
		return err.Error()
	}
	return ""
}

const (
	// holds5000 is bound and in its steady state: its init container of 20000 has completed.
	holds5000 = `
metadata: {namespace: team, name: old, uid: u-old, annotations: {hami.io/vgpu-devices-allocated: "G,NVIDIA,20000,0:;G,NVIDIA,5000,30:;"}}
spec:
  nodeName: n1
  initContainers: [{name: i, resources: {limits: {nvidia.com/gpumem: 20000}}}]
  containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 5000, nvidia.com/gpucores: 30}}}]
status:
  phase: Running
  initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0, startedAt: "2026-01-01T10:00:00Z", finishedAt: "2026-01-01T10:01:00Z"}}}]
  containerStatuses: [{name: a, state: {running: {startedAt: "2026-01-01T10:02:00Z"}}}]`
	unreadable = `
metadata: {namespace: team, name: bad, uid: u-bad, annotations: {hami.io/vgpu-devices-allocated: "G,abc,;"}}
spec: {nodeName: n1, containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 5000}}}]}
status: {phase: Running}`
)

func limit(name, hard string) string {
	return "metadata: {namespace: team, name: " + name + "}\nspec: {hard: {" + hard + "}}"
}

func app(limits string) string {
	return "metadata: {namespace: team, name: new}\nspec: {containers: [{name: a, resources: {limits: {" + limits + "}}}]}"
}

func TestCheck(t *testing.T) {
	gpumem := func(max string) []string { return []string{limit("gpu", "limits.nvidia.com/gpumem: "+max)} }
	for name, test := range map[string]struct {
		quotas, bound []string
		pod           string
		want          string // "" passes
	}{
		"scenario 1: the init container makes the peak": {
			quotas: gpumem("24576"),
			pod: `
metadata: {namespace: team, name: new}
spec:
  initContainers: [{name: load, resources: {limits: {nvidia.com/gpumem: 30720}}}]
  containers: [{name: train, resources: {limits: {nvidia.com/gpumem: 4096}}}]`,
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 24576 MiB, 0 MiB are used, and the pod would add its peak of 30720 MiB, in its phase of init container "load" (init container "load" 30720 MiB): ask for less there, or have the quota raised`,
		},
		"the sidecar before an init container counts in its phase": {
			quotas: gpumem("12000"), bound: []string{holds5000},
			pod: `
metadata: {namespace: team, name: new}
spec:
  initContainers:
  - {name: small, resources: {limits: {nvidia.com/gpumem: 500}}}
  - {name: side, restartPolicy: Always, resources: {limits: {nvidia.com/gpumem: 2000}}}
  - {name: large, resources: {limits: {nvidia.com/gpumem: 5500}}}
  containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 1000}}}]`,
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 12000 MiB, 5000 MiB are used, and the pod would add its peak of 7500 MiB, in its phase of init container "large" (sidecar container "side" 2000 MiB, init container "large" 5500 MiB): ask for less there, or have the quota raised`,
		},
		"case 5: a container without devices shifts nothing": {
			quotas: gpumem("24000"),
			pod: `
metadata: {namespace: team, name: new}
spec:
  initContainers: [{name: i}]
  containers: [{name: a1, resources: {limits: {nvidia.com/gpumem: 16000}}}, {name: a2, resources: {limits: {nvidia.com/gpumem: 16000}}}]`,
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 24000 MiB, 0 MiB are used, and the pod would add its peak of 32000 MiB, in its steady state (app container "a1" 16000 MiB, app container "a2" 16000 MiB): ask for less there, or have the quota raised`,
		},
		"case 7: MiB times devices": {
			quotas: gpumem("4095"), pod: app("nvidia.com/gpu: 2, nvidia.com/gpumem: 2048"),
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 4095 MiB, 0 MiB are used, and the pod would add its peak of 4096 MiB, in its steady state (app container "a" 2 × 2048 MiB): ask for less there, or have the quota raised`,
		},
		"case 7: just fits": {quotas: gpumem("4096"), pod: app("nvidia.com/gpu: 2, nvidia.com/gpumem: 2048")},
		"case 4: phases do not add up": {
			quotas: gpumem("40000"),
			pod: `
metadata: {namespace: team, name: new}
spec:
  initContainers: [{name: i, resources: {limits: {nvidia.com/gpumem: 30000}}}]
  containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 20000}}}]`,
		},
		"completed phases of bound pods count no more": {quotas: gpumem("24576"), bound: []string{holds5000}, pod: app("nvidia.com/gpumem: 19576")},
		"cores": {
			quotas: []string{limit("gpu", "limits.nvidia.com/gpucores: 100")}, bound: []string{holds5000},
			pod:  app("nvidia.com/gpu: 2, nvidia.com/gpucores: 40"),
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpucores allows 100%, 30% are used, and the pod would add its peak of 80%, in its steady state (app container "a" 2 × 40%): ask for less there, or have the quota raised`,
		},
		"blocks become MiB on both sides": {
			quotas: []string{limit("gpu", "limits.iluvatar.ai/MR-V100.vMem: 4")}, pod: app("iluvatar.ai/MR-V100.vMem: 5"),
			want: `ResourceQuota "gpu" of namespace "team": limits.iluvatar.ai/MR-V100.vMem allows 1024 MiB, 0 MiB are used, and the pod would add its peak of 1280 MiB, in its steady state (app container "a" 1280 MiB): ask for less there, or have the quota raised`,
		},
		"one family's containers alone are named": {
			quotas: []string{limit("gpu", "limits.amd.com/gpumem: 100")},
			pod: `
metadata: {namespace: team, name: new}
spec: {containers: [{name: n, resources: {limits: {nvidia.com/gpumem: 9000}}}, {name: m, resources: {limits: {amd.com/gpumem: 200}}}]}`,
			want: `ResourceQuota "gpu" of namespace "team": limits.amd.com/gpumem allows 100 MiB, 0 MiB are used, and the pod would add its peak of 200 MiB, in its steady state (app container "m" 200 MiB): ask for less there, or have the quota raised`,
		},
		"case 40: a requests key is held to the same charge": {
			quotas: []string{limit("gpu", "requests.nvidia.com/gpumem: 4000")}, pod: app("nvidia.com/gpu: 2, nvidia.com/gpumem: 2048"),
			want: `ResourceQuota "gpu" of namespace "team": requests.nvidia.com/gpumem allows 4000 MiB, 0 MiB are used, and the pod would add its peak of 4096 MiB, in its steady state (app container "a" 2 × 2048 MiB): ask for less there, or have the quota raised`,
		},
		"case 41: 0 blocks": {
			quotas: gpumem("0"), pod: app("nvidia.com/gpumem: 1"),
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 0 MiB, 0 MiB are used, and the pod would add its peak of 1 MiB, in its steady state (app container "a" 1 MiB): ask for less there, or have the quota raised`,
		},
		"case 41: 0 blocks a whole card": {
			quotas: gpumem("0"), pod: app("nvidia.com/gpu: 2"),
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 0 MiB, and the pod asks for some (app container "a" 2 × a whole card's memory): ask for no such device, or have the quota raised`,
		},
		"case 41: 0 blocks a percentage, whatever other quotas say": {
			quotas: []string{limit("a", "limits.nvidia.com/gpumem: 5000"), limit("b", "limits.nvidia.com/gpumem: 0")},
			bound:  []string{holds5000},
			pod:    app("nvidia.com/gpumem-percentage: 50"),
			want:   `ResourceQuota "b" of namespace "team": limits.nvidia.com/gpumem allows 0 MiB, and the pod asks for some (app container "a" 50% of a card's memory): ask for no such device, or have the quota raised`,
		},
		"case 41: absent does not limit":               {quotas: []string{limit("gpu", "pods: 5, limits.nvidia.com/gpucores: 100")}, pod: app("nvidia.com/gpumem: 90000")},
		"case 41: 0 of another family":                 {quotas: []string{limit("gpu", "limits.amd.com/gpumem: 0")}, pod: app("nvidia.com/gpu: 1")},
		"case 41: 0 cores block none who ask for none": {quotas: []string{limit("gpu", "limits.nvidia.com/gpucores: 0")}, pod: app("nvidia.com/gpu: 1")},
		"a percentage has no MiB yet":                  {quotas: gpumem("5000"), bound: []string{holds5000}, pod: app("nvidia.com/gpumem-percentage: 50")},
		"a whole card has no MiB yet":                  {quotas: gpumem("1"), pod: app("nvidia.com/gpu: 1")},
		"but its cores are known": {
			quotas: []string{limit("gpu", "limits.nvidia.com/gpumem: 1, limits.nvidia.com/gpucores: 10")}, pod: app("nvidia.com/gpu: 1, nvidia.com/gpucores: 20"),
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpucores allows 10%, 0% are used, and the pod would add its peak of 20%, in its steady state (app container "a" 20%): ask for less there, or have the quota raised`,
		},
		"and what stands beside it in MiB counts": {
			quotas: gpumem("1000"),
			pod: `
metadata: {namespace: team, name: new}
spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}, {name: b, resources: {limits: {nvidia.com/gpumem: 2000}}}]}`,
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 1000 MiB, 0 MiB are used, and the pod would add its peak of 2000 MiB, in its steady state (app container "a" a whole card's memory, app container "b" 2000 MiB): ask for less there, or have the quota raised`,
		},
		"case 42: the tightest rules": {
			quotas: []string{limit("wide", "limits.nvidia.com/gpumem: 90000"), limit("tight", "limits.nvidia.com/gpumem: 6000")}, bound: []string{holds5000},
			pod:  app("nvidia.com/gpumem: 2000"),
			want: `ResourceQuota "tight" of namespace "team": limits.nvidia.com/gpumem allows 6000 MiB, 5000 MiB are used, and the pod would add its peak of 2000 MiB, in its steady state (app container "a" 2000 MiB): ask for less there, or have the quota raised`,
		},
		"a scope selects the pod": {
			quotas: []string{"metadata: {namespace: team, name: jobs}\nspec: {scopes: [Terminating], hard: {limits.nvidia.com/gpumem: 1000}}"},
			pod:    "metadata: {namespace: team, name: new}\nspec: {activeDeadlineSeconds: 60, containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 2000}}}]}",
			want:   `ResourceQuota "jobs" of namespace "team": limits.nvidia.com/gpumem allows 1000 MiB, 0 MiB are used, and the pod would add its peak of 2000 MiB, in its steady state (app container "a" 2000 MiB): ask for less there, or have the quota raised`,
		},
		"a scope leaves the pod out": {
			quotas: []string{"metadata: {namespace: team, name: jobs}\nspec: {scopes: [Terminating], hard: {limits.nvidia.com/gpumem: 0}}"},
			pod:    app("nvidia.com/gpu: 1"),
		},
		"another namespace's quota": {
			quotas: []string{"metadata: {namespace: other, name: q}\nspec: {hard: {limits.nvidia.com/gpumem: 0}}"},
			pod:    app("nvidia.com/gpumem: 1"),
		},
		"case 27: what cannot be counted is for Bind to decide on": {quotas: gpumem("10000"), bound: []string{unreadable}, pod: app("nvidia.com/gpumem: 6000")},
		"case 27: what can be counted holds": {
			quotas: gpumem("10000"), bound: []string{unreadable, holds5000}, pod: app("nvidia.com/gpumem: 6000"),
			want: `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem allows 10000 MiB, 5000 MiB are used, and the pod would add its peak of 6000 MiB, in its steady state (app container "a" 6000 MiB): ask for less there, or have the quota raised`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			book := newBook(t, test.quotas, test.bound)
			if diff := cmp.Diff(test.want, check(t, book, test.pod)); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}
}

// Case 43: two pods that have room for one both pass, since neither books anything; Bind decides.
func TestCheckBooksNothing(t *testing.T) {
	book := newBook(t, []string{limit("gpu", "limits.nvidia.com/gpumem: 10000")}, nil)
	before := book.Generation()
	for range 2 {
		if got := check(t, book, app("nvidia.com/gpumem: 6000")); got != "" {
			t.Errorf("refused: %s", got)
		}
	}
	if book.Generation() != before {
		t.Error("the books changed")
	}
}

// A quota whose line cannot be read says so, not that it allows 0: its owner is the one to act.
func TestUnreadableQuota(t *testing.T) {
	truth, err := kube.Quota(read[corev1.ResourceQuota](t, limit("gpu", "limits.nvidia.com/gpumem: 16Gi")))
	if err == nil {
		t.Fatal("the quota is readable")
	}
	book := ledger.New()
	book.SetQuota(truth)
	const want = `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem cannot be read and allows nothing until it is mended: nvidia.com/gpumem: 16Gi means 17179869184 bytes: write 16384 (MiB)`
	for _, asked := range []string{"nvidia.com/gpumem: 1", "nvidia.com/gpu: 1"} { // the second: a whole card
		if diff := cmp.Diff(want, check(t, book, app(asked))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", asked, diff)
		}
	}
}

// Case 42: deleting one quota leaves the others in force.
func TestRemovedQuota(t *testing.T) {
	book := newBook(t, []string{limit("a", "limits.nvidia.com/gpumem: 1000"), limit("b", "limits.nvidia.com/gpumem: 0")}, nil)
	for _, step := range []struct {
		remove string
		pod    string
		passes bool
	}{
		{"", app("nvidia.com/gpu: 1"), false},
		{"b", app("nvidia.com/gpu: 1"), true},
		{"", app("nvidia.com/gpumem: 2000"), false},
		{"a", app("nvidia.com/gpumem: 2000"), true},
	} {
		if step.remove != "" {
			book.RemoveQuota("team", step.remove)
		}
		if got := check(t, book, step.pod); (got == "") != step.passes {
			t.Errorf("after removing %q: %q", step.remove, got)
		}
	}
}

// The phase that a message names is one whose total is the charge that was refused.
func TestPeakIsWhereTheChargeComesFrom(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	families := []string{"NVIDIA", "MLU"}
	for range 20000 {
		inits, apps := random.Intn(4), 1+random.Intn(3)
		a := asking{}
		for i := range inits + apps {
			class := phase.App
			if i < inits {
				class = []phase.Class{phase.Init, phase.Sidecar}[random.Intn(2)]
			}
			a.classes = append(a.classes, class)
			var r device.Request
			if random.Intn(4) > 0 {
				r = device.Request{Family: families[random.Intn(2)], Devices: 1 + random.Intn(3), MemoryMiB: 1000 * random.Int63n(5), Cores: 10 * random.Int63n(5)}
			}
			a.requests = append(a.requests, r)
		}
		charges, _, err := kube.Charges(a.classes, a.requests)
		if err != nil {
			t.Fatal(err)
		}
		for family, charge := range charges {
			for _, d := range []ledger.Dimension{ledger.Memory, ledger.Cores} {
				k := a.peak(ledger.Limit{Family: family, Dimension: d})
				var total int64
				for position, r := range a.requests {
					if r.Family == family && a.classes.Alive(k, position) {
						total += int64(r.Devices) * map[ledger.Dimension]int64{ledger.Memory: r.MemoryMiB, ledger.Cores: r.Cores}[d]
					}
				}
				want := map[ledger.Dimension]int64{ledger.Memory: charge.MemoryMiB, ledger.Cores: charge.Cores}[d]
				if total != want {
					t.Fatalf("seed %d: phase %d totals %d, the charge is %d: %+v", seed, k, total, want, a)
				}
			}
		}
	}
}
