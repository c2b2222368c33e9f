package scenarios_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/scenarios"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestBadInput: malformed input gets an error that names the object and what is wrong with it, and affects no other
// object. Select some by name: -run 'TestBadInput/records'.
func TestBadInput(t *testing.T) {
	cluster := stack.StartT(t, stack.Options{})
	for _, s := range []struct {
		name string
		play func(*testing.T, *scenarios.Play)
	}{
		{"quantities", quantities},
		{"annotations", annotationValues},
		{"unmanaged", unmanaged},
		{"webhook-down", webhookDown},
		{"records", records},
		{"inventories", inventories},
		{"bodies", bodies},
		{"clients", clients},
		{"direct", direct},
		{"opt-outs", optOuts},
		{"devices", devices},
		{"node-gone", nodeGone},
	} {
		t.Run(s.name, func(t *testing.T) {
			p := scenarios.Begin(stage{t}, cluster, "bad-"+s.name)
			p.AddNode(nodesim.Node{
				Name: "good", Labels: map[string]string{"story": "good"}, Devices: nodesim.GPUs("good", 1, 24576),
			})
			s.play(t, p)
			// All goes on.
			other := p.Submit(at("good", p.Pod("at-the-end", stack.App("train", stack.GPU(1, 1000)))))
			p.Scheduled(other)
			p.Running(other, "train")
		})
	}
	for _, name := range []string{"phasegpu-webhook.log", "phasegpu-extender.log"} {
		log, err := os.ReadFile(filepath.Join(cluster.LogDir(), name))
		must(t, err)
		if strings.Contains(string(log), "panic") {
			t.Errorf("%s tells of a panic", name)
		}
	}
}

// at has a pod go to the node with this label.
func at(story string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{"story": story}
	return pod
}

// says fails the test unless there is an error with all of these words.
func says(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
	} else if err := stack.Lacks(err.Error(), words...); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// quantities that no card can have, written as a user writes them. Some the API server refuses itself.
func quantities(t *testing.T, p *scenarios.Play) {
	const (
		count, memory     = "nvidia.com/gpu", "nvidia.com/gpumem"
		percent, cores    = "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
		mluMemory, blocks = "cambricon.com/mlu.smlu.vmemory", "iluvatar.ai/MR-V100.vMem"
	)
	type limits map[string]any
	refused := []struct {
		limits limits
		words  []string
	}{
		{limits{memory: "-1"}, []string{memory, "-1", "negative"}},
		{limits{count: "-2"}, []string{count, "-2", "negative"}},
		{limits{cores: -1}, []string{cores, "-1", "negative"}},
		{limits{percent: "-5"}, []string{percent, "-5", "negative"}},
		{limits{count: "0.5"}, []string{count, "500m", "fraction"}},
		{limits{memory: "1.5"}, []string{memory, "1500m", "fraction"}},
		{limits{memory: "1500m"}, []string{memory, "fraction"}},
		{limits{percent: "99.1"}, []string{percent, "99100m", "fraction"}},
		{limits{cores: "50.5"}, []string{cores, "fraction"}},
		{limits{mluMemory: "0.5"}, []string{mluMemory, "fraction"}},
		{limits{memory: "1n"}, []string{memory, "fraction"}},
		{limits{memory: "16Gi"}, []string{memory, "17179869184 bytes", "16384"}},
		{limits{blocks: "16Gi"}, []string{blocks, "bytes", "64", "256 MiB"}},
		{limits{memory: "2147483648"}, []string{memory, "too large", "8388608"}},
		{limits{memory: "8388609"}, []string{memory, "too large", "8388608"}},
		{limits{memory: "9223372036854775808"}, []string{memory, "too large"}},
		{limits{memory: "1e30"}, []string{memory, "too large"}},
		{limits{memory: "1E"}, []string{memory, "too large"}},
		{limits{count: "1025"}, []string{count, "too large", "1024"}},
		{limits{count: "18446744073709551617"}, []string{count, "too large"}},
		{limits{count: 0}, []string{count, "too small"}},
		{limits{count: 1, memory: 0}, []string{memory, "too small", "whole card"}},
		{limits{count: 1, percent: 0}, []string{percent, "too small"}},
		{limits{percent: "101"}, []string{percent, "101", "at most 100"}},
		{limits{cores: "101"}, []string{cores, "101", "at most 100"}},
		{limits{memory: "1000", percent: "50"}, []string{memory, percent, "leave one out"}},
		{limits{memory: "1000", "amd.com/gpu": "1"}, []string{memory, "amd.com/gpu", "one family"}},
		// Where the API server cannot read a number, it says so.
		{limits{memory: "NaN"}, []string{"quantities must match the regular expression"}},
		{limits{memory: "16 GB"}, []string{"quantities must match the regular expression"}},
		{limits{memory: "1e"}, []string{"unable to parse quantity's suffix"}},
		{limits{memory: ""}, []string{"quantities must match the regular expression"}},
		{limits{memory: true}, []string{"Pod in version"}},
		{limits{memory: []int{1}}, []string{"Pod in version"}},
	}
	before := p.Books().Generation
	for i, r := range refused {
		for _, list := range []string{"containers", "initContainers"} {
			what := fmt.Sprintf("%s of %v", list, r.limits)
			err := create(p, fmt.Sprintf("refused-%d", i), list, map[string]any{"limits": r.limits})
			says(t, what, err, r.words...)
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("%s: want an invalid request, got %v", what, err)
			}
			if !strings.Contains(r.words[0], " ") { // ours, not the API server's
				says(t, what, err, "bad-quantities/refused-", `container odd`)
			}
		}
	}
	says(t, "requests alone", create(p, "alone", "containers", map[string]any{"requests": limits{memory: "1000"}}),
		"odd", memory, "put it in limits")
	says(t, "other requests", create(p, "other", "containers",
		map[string]any{"limits": limits{memory: "1000"}, "requests": limits{memory: "999"}}),
		"odd", memory, "999", "1k")
	if after := p.Books().Generation; after != before {
		t.Errorf("refused pods changed the books %d times", after-before)
	}

	// As large as can be: what is added up is right, too.
	quotas := p.Cluster.Client.CoreV1().ResourceQuotas(p.Namespace)
	_, err := quotas.Create(p.Context(), quota("team", "limits.nvidia.com/gpumem", "17179869183"),
		metav1.CreateOptions{})
	must(t, err)
	huge := p.Pod("huge", stack.App("a", stack.GPU(1024, 8388608)), stack.App("b", stack.GPU(1024, 8388608)))
	p.Refused(huge, "peak of 17179869184 MiB")
	must(t, quotas.Delete(p.Context(), "team", metav1.DeleteOptions{}))

	// Decimal suffixes are a way to write a number, and the API server's own.
	must(t, create(p, "accepted", "containers", map[string]any{"limits": limits{memory: "1k"}}))
	accepted := p.Scheduled(p.Pod("accepted"))
	if got, want := accepted.Annotations["hami.io/vgpu-devices-allocated"], ";GPU-good-0,NVIDIA,1000,0:;"; got != want {
		t.Errorf("record %q, want %q", got, want)
	}
}

// create creates a pod from JSON, with the resources given to container "odd" of a list.
func create(p *scenarios.Play, name, list string, resources map[string]any) error {
	spec := map[string]any{
		"initContainers": []any{map[string]any{"name": "first", "image": "example.test/first"}},
		"containers":     []any{map[string]any{"name": "last", "image": "example.test/last"}},
	}
	spec[list] = []any{map[string]any{"name": "odd", "image": "example.test/odd", "resources": resources}}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		return err
	}
	return p.Cluster.Client.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").
		SetHeader("Content-Type", "application/json").Body(body).Do(p.Context()).Error()
}

func quota(name string, key corev1.ResourceName, limit string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec.Hard = corev1.ResourceList{key: quantity.MustParse(limit)}
	return q
}

// warnings are what the API server warned of.
type warnings []string

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	*w = append(*w, text)
}

// annotationValues that mean nothing are refused with those that do, and later edits hurt only their own pod.
func annotationValues(t *testing.T, p *scenarios.Play) {
	for key, accepted := range map[string][]string{
		"hami.io/node-scheduler-policy": {"binpack", "spread"},
		"hami.io/gpu-scheduler-policy":  {"binpack", "spread"},
		"nvidia.com/numa-bind":          {"true", "false"},
		"hami.io/numa-alignment":        {"best-effort", "strict"},
		"phasegpu.io/release":           {"per-init", "all-inits", "hold"},
	} {
		for _, value := range []string{"", "never", "BINPACK", "true,false", strings.Repeat("x", 100_000), "spread\x00",
			"\u202espread"} {
			pod := stack.Annotate(p.Pod("odd", stack.App("train", stack.GPU(1, 1000))), key, value)
			err := p.Cluster.DryRun(p.Context(), pod)
			says(t, fmt.Sprintf("%s %.20q", key, value), err,
				append(accepted, key, "bad-annotations/odd", "is unknown")...)
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%s: the error has %d bytes", key, len(err.Error()))
			}
		}
		for _, value := range append(accepted, "  "+accepted[0]+"\n") {
			must(t, p.Cluster.DryRun(p.Context(),
				stack.Annotate(p.Pod("even", stack.App("train", stack.GPU(1, 1000))), key, value)))
		}
	}

	// An unknown key is no error, and kubectl shows a warning.
	shown := warnings{}
	config := p.Cluster.Admin()
	config.WarningHandlerWithContext = &shown
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	slip := stack.Annotate(p.Pod("slip", stack.App("train", stack.GPU(1, 1000))), "phasegpu.io/relase", "hold")
	must(t, (&stack.Cluster{Client: client}).DryRun(p.Context(), slip))
	if len(shown) != 1 || !strings.Contains(shown[0], "is it misspelt? Known are phasegpu.io/release") {
		t.Errorf("warnings %q", shown)
	}

	// An edit after admission.
	waiting := p.Submit(at("nowhere", p.Pod("waiting", stack.App("train", stack.GPU(1, 1000)))))
	p.Pending(waiting)
	must(t, p.Patch(waiting, `{"metadata":{"annotations":{"hami.io/gpu-scheduler-policy":"tight"}}}`))
	label := func(story string) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"story":%q}}}`, story)
		_, err := p.Cluster.Client.CoreV1().Nodes().Patch(p.Context(), "good", types.MergePatchType, patch,
			metav1.PatchOptions{})
		must(t, err)
	}
	label("nowhere")
	p.Pending(waiting, "hami.io/gpu-scheduler-policy", `"tight"`, "binpack", "spread", "bad-annotations/waiting")
	other := p.Submit(at("nowhere", p.Pod("other", stack.App("train", stack.GPU(1, 1000)))))
	p.Scheduled(other)
	must(t, p.Patch(waiting, `{"metadata":{"annotations":{"hami.io/gpu-scheduler-policy":"spread"}}}`))
	p.Scheduled(waiting)
	label("good")

	// A running pod whose release policy becomes unreadable holds its peak.
	pod := p.Submit(p.Pod("running", stack.Init("load", stack.GPU(1, 8000)), stack.App("train", stack.GPU(1, 2000))))
	p.Finish(pod, "load", 0)
	p.Running(pod, "train")
	p.Holds(pod, 2000)
	must(t, p.Patch(pod, `{"metadata":{"annotations":{"phasegpu.io/release":"never"}}}`))
	p.Holds(pod, 8000)
	must(t, p.Patch(pod, `{"metadata":{"annotations":{"phasegpu.io/release":null}}}`))
	p.Holds(pod, 2000)
}
