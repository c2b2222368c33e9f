package classifiergen

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/gen/classify"
)

// condition is an item of matchConditions or of a policy's variables.
type condition struct{ Name, Expression string }

// expression compiles the one item of a generated block as the API server does
// (k8s.io/apiserver/pkg/cel/environment): optional types, homogeneous literals, constants folded.
func expression(t *testing.T, block string) func(pod *corev1.Pod) (value any, cost uint64) {
	t.Helper()
	var items []condition
	if err := yaml.UnmarshalStrict([]byte(text(t, block)), &items); err != nil {
		t.Fatal(err)
	}
	if len(items) != 1 {
		t.Fatalf("block %s has %d items, want 1", block, len(items))
	}
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.OptionalTypes(), cel.Variable("object", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(items[0].Expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostLimit(1_000_000),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)))
	if err != nil {
		t.Fatal(err)
	}
	return func(pod *corev1.Pod) (any, uint64) {
		t.Helper()
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			t.Fatal(err)
		}
		result, details, err := program.Eval(map[string]any{"object": object})
		if err != nil {
			t.Fatalf("pod %v: %v", object, err)
		}
		return result.Value(), *details.ActualCost()
	}
}

func pod(init, app corev1.ResourceRequirements, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", Resources: init}},
		Containers:     []corev1.Container{{Name: "plain"}, {Name: "app", Resources: app}},
	}}
	for _, key := range annotations {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = ""
	}
	return p
}

func amounts(names ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		list[corev1.ResourceName(name)] = resource.MustParse("1")
	}
	return list
}

// TestMatchConditions: the webhook sees exactly the pods that the classifiers know (a GPU only
// in an init container too), and no absent field makes the expression fail.
func TestMatchConditions(t *testing.T) {
	match := expression(t, "match-conditions")
	none, cpu := corev1.ResourceRequirements{}, corev1.ResourceRequirements{Limits: amounts("cpu", "memory"), Requests: amounts("cpu")}
	type test struct {
		name string
		pod  *corev1.Pod
		want bool
	}
	tests := []test{
		{"empty", &corev1.Pod{}, false},
		{"nothing asked", pod(none, none), false},
		{"CPU", pod(cpu, cpu, "example.com/note"), false},
		{"a name that only begins like one", pod(none, corev1.ResourceRequirements{Limits: amounts("nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb")}), false},
	}
	for _, key := range classify.ProtectedAnnotations() {
		tests = append(tests, test{key, pod(none, none, "example.com/note", key), true})
	}
	for _, f := range classify.Families() {
		for _, name := range f.Resources() {
			list := amounts("cpu", string(name))
			tests = append(tests,
				test{"init limits " + string(name), pod(corev1.ResourceRequirements{Limits: list}, cpu), true},
				test{"init requests " + string(name), pod(corev1.ResourceRequirements{Requests: list}, none), true},
				test{"app limits " + string(name), pod(none, corev1.ResourceRequirements{Limits: list}), true},
				test{"app requests " + string(name), pod(cpu, corev1.ResourceRequirements{Limits: amounts("cpu"), Requests: list}), true},
			)
		}
	}
	for _, test := range tests {
		if got, _ := match(test.pod); got != test.want {
			t.Errorf("%s: %v, want %t", test.name, got, test.want)
		}
	}
}

// TestMatchConditionsCost: far below what the API server allows (1,000,000 for an expression), even for
// a pod of 200 containers with 20 resources each.
func TestMatchConditionsCost(t *testing.T) {
	match := expression(t, "match-conditions")
	two := corev1.ResourceRequirements{Limits: amounts("cpu", "memory"), Requests: amounts("cpu", "memory")}
	if got, cost := match(pod(two, two, "a", "b", "c")); got != false || cost > 1000 {
		t.Errorf("an ordinary pod: %v at cost %d, want false at 1000 at most", got, cost)
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("example.com/resource-%d", i))
	}
	large := &corev1.Pod{}
	for range 200 {
		large.Spec.Containers = append(large.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: amounts(many...), Requests: amounts(many...)}})
	}
	if got, cost := match(large); got != false || cost > 500_000 {
		t.Errorf("a large pod: %v at cost %d, want false at 500000 at most", got, cost)
	}
}

// TestMatchConditionsEqualClassifiers on random pods.
func TestMatchConditionsEqualClassifiers(t *testing.T) {
	match := expression(t, "match-conditions")
	names := []string{"cpu", "memory", "nvidia.com/gpux", "amd.com/GPU"}
	for _, f := range classify.Families() {
		names = append(names, string(f.Count), string(f.Cores), string(f.Memory)+"x")
	}
	seed := rand.Int63()
	rng := rand.New(rand.NewSource(seed))
	some := func() (r corev1.ResourceRequirements) {
		if rng.Intn(3) > 0 {
			r.Limits = amounts(names[rng.Intn(3)], names[rng.Intn(len(names))])
		}
		if rng.Intn(3) > 0 {
			r.Requests = amounts("cpu")
		}
		return r
	}
	seen := map[bool]int{}
	for range 2000 {
		p := pod(some(), some())
		want := false
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			want = want || classify.Asks(&c.Resources)
		}
		seen[want]++
		if got, _ := match(p); got != want {
			t.Fatalf("seed %d: %v for %+v, want %t", seed, got, p.Spec, want)
		}
	}
	if seen[true] < 100 || seen[false] < 100 {
		t.Errorf("%v: the test has lost its reach", seen)
	}
}

func TestProtectedAnnotationsBlock(t *testing.T) {
	got, _ := expression(t, "protected-annotations")(&corev1.Pod{})
	var keys []string
	for _, key := range got.([]ref.Val) {
		keys = append(keys, key.Value().(string))
	}
	if strings.Join(keys, ",") != strings.Join(classify.ProtectedAnnotations(), ",") {
		t.Errorf("the block says %v, the classifiers %v", keys, classify.ProtectedAnnotations())
	}
}

func TestManagedResourcesBlock(t *testing.T) {
	var items []struct {
		Name               string
		IgnoredByScheduler *bool
	}
	if err := yaml.UnmarshalStrict([]byte(text(t, "managed-resources")), &items); err != nil {
		t.Fatal(err)
	}
	want := classify.ManagedResources()
	if len(items) != len(want) {
		t.Fatalf("%d items, want %d", len(items), len(want))
	}
	for i, item := range items {
		if item.IgnoredByScheduler == nil || item.Name != string(want[i].Name) || *item.IgnoredByScheduler != want[i].IgnoredByScheduler {
			t.Errorf("item %d is %+v, want %+v", i, item, want[i])
		}
	}
}

func TestResourceTableBlock(t *testing.T) {
	table := text(t, "resource-table")
	for _, f := range classify.Families() {
		for _, name := range f.Resources() {
			if !strings.Contains(table, "`"+string(name)+"`") {
				t.Errorf("the table does not name %s", name)
			}
		}
	}
	for _, line := range strings.Split(table, "\n") {
		if strings.Count(line, "|") != 6 {
			t.Errorf("line %q has no 5 columns", line)
		}
	}
}

func TestQuotaTableBlock(t *testing.T) {
	table := text(t, "quota-table")
	for _, f := range classify.Families() {
		for _, name := range []corev1.ResourceName{f.Memory, f.Cores} {
			for _, prefix := range []string{"limits.", "requests."} {
				if !strings.Contains(table, "`"+prefix+string(name)+"`") {
					t.Errorf("the table does not name %s%s", prefix, name)
				}
			}
		}
	}
}

func TestAnnotationTableBlock(t *testing.T) {
	table := text(t, "annotation-table")
	for _, f := range classify.Families() {
		if !strings.Contains(table, "| `"+f.PodAnnotation+"` |") || f.NodeAnnotation != "" && !strings.Contains(table, "| `"+f.NodeAnnotation+"` |") {
			t.Errorf("the table does not name %s and %s", f.PodAnnotation, f.NodeAnnotation)
		}
	}
}

// text returns the text of a block for the project's own families.
func text(t *testing.T, block string) string {
	t.Helper()
	lines, ok := blocks(classify.Families())[block]
	if !ok {
		t.Fatalf("there is no block %s", block)
	}
	return strings.Join(lines, "\n")
}
