package quota

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/yamltest"
)

// newBook returns books with these quotas and bound pods.
func newBook(t *testing.T, quotas []string, bound []string) *ledger.Book {
	t.Helper()
	book := ledger.New()
	for _, text := range quotas {
		q, err := kube.Quota(yamltest.Read[corev1.ResourceQuota](t, text))
		if err != nil {
			t.Fatal(err)
		}
		book.SetQuota(q)
	}
	for _, text := range bound {
		book.Observe(kube.LedgerPod(yamltest.Read[corev1.Pod](t, text), phase.PerInit))
	}
	return book
}

// check returns the refusal of a pod, "" when it passes.
func check(t *testing.T, book *ledger.Book, text string) string {
	t.Helper()
	pod := yamltest.Read[corev1.Pod](t, text)
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
metadata:
  {namespace: team, name: old, uid: u-old,
   annotations: {hami.io/vgpu-devices-allocated: "G,NVIDIA,20000,0:;G,NVIDIA,5000,30:;"}}
spec:
  nodeName: n1
  initContainers: [{name: i, resources: {limits: {nvidia.com/gpumem: 20000}}}]
  containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 5000, nvidia.com/gpucores: 30}}}]
status:
  phase: Running
  initContainerStatuses:
  - {name: i, state: {terminated: {exitCode: 0, startedAt: "2026-01-01T10:00:00Z", finishedAt: "2026-01-01T10:01:00Z"}}}
  containerStatuses: [{name: a, state: {running: {startedAt: "2026-01-01T10:02:00Z"}}}]`
	unreadable = `
metadata: {namespace: team, name: bad, uid: u-bad, annotations: {hami.io/vgpu-devices-allocated: "G,abc,;"}}
spec: {nodeName: n1, containers: [{name: a, resources: {limits: {nvidia.com/gpumem: 5000}}}]}
status: {phase: Running}`
	// terminating is a quota on jobs.
	terminating = "metadata: {namespace: team, name: jobs}\n" +
		"spec: {scopes: [Terminating], hard: {limits.nvidia.com/gpumem: %d}}"
)

func limit(name, hard string) string {
	return "metadata: {namespace: team, name: " + name + "}\nspec: {hard: {" + hard + "}}"
}

// memory returns the quota "gpu" on NVIDIA memory.
func memory(max string) []string { return []string{limit("gpu", "limits.nvidia.com/gpumem: "+max)} }

// pod returns a pod of containers, each as "name: limits"; a name that begins with i is an init container, one with s a
// sidecar.
func pod(containers ...string) string {
	lists := map[bool][]string{}
	for _, text := range containers {
		name, limits, _ := strings.Cut(text, ":")
		always := ""
		if name[0] == 's' {
			always = "restartPolicy: Always, "
		}
		isApp := name[0] != 'i' && name[0] != 's'
		lists[isApp] = append(lists[isApp], "{name: "+name+", "+always+"resources: {limits: {"+limits+"}}}")
	}
	return "metadata: {namespace: team, name: new}\nspec:\n  initContainers: [" + strings.Join(lists[false], ", ") +
		"]\n  containers: [" + strings.Join(lists[true], ", ") + "]"
}

// exceeds is the refusal by a quota, with the phase of the peak and its containers.
func exceeds(quota, key, max, used, peak, phase string) string {
	return fmt.Sprintf("ResourceQuota %q of namespace \"team\": %s allows %s, %s are used, and the pod would add its "+
		"peak of %s, in its %s: ask for less there, or have the quota raised", quota, key, max, used, peak, phase)
}

// blocks is the refusal by a limit of 0 of what has no number yet.
func blocks(quota, container string) string {
	return fmt.Sprintf("ResourceQuota %q of namespace \"team\": limits.nvidia.com/gpumem allows 0 MiB, and the pod "+
		"asks for some (%s): ask for no such device, or have the quota raised", quota, container)
}

func TestCheck(t *testing.T) {
	const nvidia = "limits.nvidia.com/gpumem"
	amd := []string{limit("gpu", "limits.amd.com/gpumem: 100")}
	for name, test := range map[string]struct {
		quotas, bound []string
		pod           string
		want          string // "" passes
	}{
		"the init container makes the peak": {
			memory("24576"), nil, pod("iload: nvidia.com/gpumem: 30720", "train: nvidia.com/gpumem: 4096"),
			exceeds("gpu", nvidia, "24576 MiB", "0 MiB", "30720 MiB",
				`phase of init container "iload" (init container "iload" 30720 MiB)`),
		},
		"the sidecar before an init container counts in its phase": {
			memory("12000"), []string{holds5000}, pod("ismall: nvidia.com/gpumem: 500", "s: nvidia.com/gpumem: 2000",
				"ilarge: nvidia.com/gpumem: 5500", "a: nvidia.com/gpumem: 1000"),
			exceeds("gpu", nvidia, "12000 MiB", "5000 MiB", "7500 MiB",
				`phase of init container "ilarge" (sidecar container "s" 2000 MiB, init container "ilarge" 5500 MiB)`),
		},
		"a container without devices shifts nothing": {
			memory("24000"), nil, pod("i:", "a1: nvidia.com/gpumem: 16000", "a2: nvidia.com/gpumem: 16000"),
			exceeds("gpu", nvidia, "24000 MiB", "0 MiB", "32000 MiB",
				`steady state (app container "a1" 16000 MiB, app container "a2" 16000 MiB)`),
		},
		"MiB times devices": {
			memory("4095"), nil, pod("a: nvidia.com/gpu: 2, nvidia.com/gpumem: 2048"),
			exceeds("gpu", nvidia, "4095 MiB", "0 MiB", "4096 MiB", `steady state (app container "a" 2 × 2048 MiB)`),
		},
		"just fits": {memory("4096"), nil, pod("a: nvidia.com/gpu: 2, nvidia.com/gpumem: 2048"), ""},
		"phases do not add up": {
			memory("40000"), nil, pod("i: nvidia.com/gpumem: 30000", "a: nvidia.com/gpumem: 20000"), "",
		},
		"completed phases of bound pods do not count": {
			memory("24576"), []string{holds5000}, pod("a: nvidia.com/gpumem: 19576"), "",
		},
		"cores": {
			[]string{limit("gpu", "limits.nvidia.com/gpucores: 100")}, []string{holds5000},
			pod("a: nvidia.com/gpu: 2, nvidia.com/gpucores: 40"),
			exceeds("gpu", "limits.nvidia.com/gpucores", "100%", "30%", "80%",
				`steady state (app container "a" 2 × 40%)`),
		},
		"blocks become MiB on both sides": {
			[]string{limit("gpu", "limits.iluvatar.ai/MR-V100.vMem: 4")}, nil, pod("a: iluvatar.ai/MR-V100.vMem: 5"),
			exceeds("gpu", "limits.iluvatar.ai/MR-V100.vMem", "1024 MiB", "0 MiB", "1280 MiB",
				`steady state (app container "a" 1280 MiB)`),
		},
		"only the family's containers are named": {
			amd, nil, pod("n: nvidia.com/gpumem: 9000", "m: amd.com/gpumem: 200"),
			exceeds("gpu", "limits.amd.com/gpumem", "100 MiB", "0 MiB", "200 MiB",
				`steady state (app container "m" 200 MiB)`),
		},
		"a requests key is held to the same charge": {
			[]string{limit("gpu", "requests.nvidia.com/gpumem: 4000")}, nil,
			pod("a: nvidia.com/gpu: 2, nvidia.com/gpumem: 2048"),
			exceeds("gpu", "requests.nvidia.com/gpumem", "4000 MiB", "0 MiB", "4096 MiB",
				`steady state (app container "a" 2 × 2048 MiB)`),
		},
		"0 blocks": {
			memory("0"), nil, pod("a: nvidia.com/gpumem: 1"),
			exceeds("gpu", nvidia, "0 MiB", "0 MiB", "1 MiB", `steady state (app container "a" 1 MiB)`),
		},
		"0 blocks a whole card": {
			memory("0"), nil, pod("a: nvidia.com/gpu: 2"),
			blocks("gpu", `app container "a" 2 × a whole card's memory`),
		},
		"0 blocks a percentage, whatever other quotas say": {
			[]string{limit("a", "limits.nvidia.com/gpumem: 5000"), limit("b", "limits.nvidia.com/gpumem: 0")},
			[]string{holds5000}, pod("a: nvidia.com/gpumem-percentage: 50"),
			blocks("b", `app container "a" 50% of a card's memory`),
		},
		"absent does not limit": {
			[]string{limit("gpu", "pods: 5, limits.nvidia.com/gpucores: 100")}, nil,
			pod("a: nvidia.com/gpumem: 90000"), "",
		},
		"0 of another family": {
			[]string{limit("gpu", "limits.amd.com/gpumem: 0")}, nil, pod("a: nvidia.com/gpu: 1"), "",
		},
		"0 cores do not block pods that request none": {
			[]string{limit("gpu", "limits.nvidia.com/gpucores: 0")}, nil, pod("a: nvidia.com/gpu: 1"), "",
		},
		"a percentage has no MiB yet": {
			memory("5000"), []string{holds5000}, pod("a: nvidia.com/gpumem-percentage: 50"), "",
		},
		"a whole card has no MiB yet": {memory("1"), nil, pod("a: nvidia.com/gpu: 1"), ""},
		"but its cores are known": {
			[]string{limit("gpu", "limits.nvidia.com/gpumem: 1, limits.nvidia.com/gpucores: 10")}, nil,
			pod("a: nvidia.com/gpu: 1, nvidia.com/gpucores: 20"),
			exceeds("gpu", "limits.nvidia.com/gpucores", "10%", "0%", "20%", `steady state (app container "a" 20%)`),
		},
		"and what is beside it in MiB counts": {
			memory("1000"), nil, pod("a: nvidia.com/gpu: 1", "b: nvidia.com/gpumem: 2000"),
			exceeds("gpu", nvidia, "1000 MiB", "0 MiB", "2000 MiB",
				`steady state (app container "a" a whole card's memory, app container "b" 2000 MiB)`),
		},
		"the tightest rules": {
			[]string{limit("wide", nvidia+": 90000"), limit("tight", nvidia+": 6000")},
			[]string{holds5000}, pod("a: nvidia.com/gpumem: 2000"),
			exceeds("tight", nvidia, "6000 MiB", "5000 MiB", "2000 MiB", `steady state (app container "a" 2000 MiB)`),
		},
		"a scope selects the pod": {
			[]string{fmt.Sprintf(terminating, 1000)}, nil,
			pod("a: nvidia.com/gpumem: 2000") + "\n  activeDeadlineSeconds: 60",
			exceeds("jobs", nvidia, "1000 MiB", "0 MiB", "2000 MiB", `steady state (app container "a" 2000 MiB)`),
		},
		"a scope leaves the pod out": {[]string{fmt.Sprintf(terminating, 0)}, nil, pod("a: nvidia.com/gpu: 1"), ""},
		"another namespace's quota": {
			[]string{"metadata: {namespace: other, name: q}\nspec: {hard: {limits.nvidia.com/gpumem: 0}}"}, nil,
			pod("a: nvidia.com/gpumem: 1"), "",
		},
		"what cannot be counted is for Bind to decide on": {
			memory("10000"), []string{unreadable}, pod("a: nvidia.com/gpumem: 6000"), "",
		},
		"what can be counted holds": {
			memory("10000"), []string{unreadable, holds5000}, pod("a: nvidia.com/gpumem: 6000"),
			exceeds("gpu", nvidia, "10000 MiB", "5000 MiB", "6000 MiB", `steady state (app container "a" 6000 MiB)`),
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

// Two pods that have room for one both pass, since neither books anything; Bind decides.
func TestCheckBooksNothing(t *testing.T) {
	book := newBook(t, memory("10000"), nil)
	before := book.Generation()
	for range 2 {
		if got := check(t, book, pod("a: nvidia.com/gpumem: 6000")); got != "" {
			t.Errorf("refused: %s", got)
		}
	}
	if book.Generation() != before {
		t.Error("the books changed")
	}
}

// A quota whose line cannot be read says so, not that it allows 0: its owner is the one to act.
func TestUnreadableQuota(t *testing.T) {
	truth, err := kube.Quota(yamltest.Read[corev1.ResourceQuota](t, limit("gpu", "limits.nvidia.com/gpumem: 16Gi")))
	if err == nil {
		t.Fatal("the quota is readable")
	}
	book := ledger.New()
	book.SetQuota(truth)
	const want = `ResourceQuota "gpu" of namespace "team": limits.nvidia.com/gpumem cannot be read and allows nothing ` +
		`until it is mended: nvidia.com/gpumem: 16Gi means 17179869184 bytes: write 16384 (MiB)`
	for _, asked := range []string{"nvidia.com/gpumem: 1", "nvidia.com/gpu: 1"} { // the second: a whole card
		if diff := cmp.Diff(want, check(t, book, pod("a: "+asked))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", asked, diff)
		}
	}
}

// Deleting one quota leaves the others in force.
func TestRemovedQuota(t *testing.T) {
	quotas := []string{limit("a", "limits.nvidia.com/gpumem: 1000"), limit("b", "limits.nvidia.com/gpumem: 0")}
	book := newBook(t, quotas, nil)
	for _, step := range []struct {
		remove string
		pod    string
		passes bool
	}{
		{"", pod("a: nvidia.com/gpu: 1"), false},
		{"b", pod("a: nvidia.com/gpu: 1"), true},
		{"", pod("a: nvidia.com/gpumem: 2000"), false},
		{"a", pod("a: nvidia.com/gpumem: 2000"), true},
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
		a := request{}
		for i := range inits + apps {
			class := phase.App
			if i < inits {
				class = []phase.Class{phase.Init, phase.Sidecar}[random.Intn(2)]
			}
			a.classes = append(a.classes, class)
			var r device.Request
			if random.Intn(4) > 0 {
				r = device.Request{
					Family: families[random.Intn(2)], Devices: 1 + random.Intn(3),
					MemoryMiB: 1000 * random.Int63n(5), Cores: 10 * random.Int63n(5),
				}
			}
			a.devices = append(a.devices, r)
		}
		charges, _, err := kube.Charges(a.classes, a.devices)
		if err != nil {
			t.Fatal(err)
		}
		for family, charge := range charges {
			for _, d := range []ledger.Dimension{ledger.Memory, ledger.Cores} {
				k := a.peak(ledger.Limit{Family: family, Dimension: d})
				var total int64
				for position, r := range a.devices {
					if r.Family == family && a.classes.Alive(k, position) {
						total += int64(r.Devices) * map[ledger.Dimension]int64{
							ledger.Memory: r.MemoryMiB, ledger.Cores: r.Cores,
						}[d]
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
