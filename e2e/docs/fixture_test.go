package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/controlplane/build"
	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// fixture is a cluster with what the pages speak of: node gpu-1 with two cards, pod my-pod in namespace team on
// it, and the deployments of an installation.
type fixture struct {
	*stack.Stack
	checkout string
	kubectl  string // kubectl itself
	path     string // folder of the programs that pages may use
	used     string // folder in which programs that are not run leave their names
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	root, err := checkout.Root()
	must(t, err)
	programs, err := build.Programs(t.Context(), os.Stderr, "kubectl")
	must(t, err)
	f := &fixture{checkout: root, kubectl: programs[0], path: t.TempDir(), used: t.TempDir()}
	built, plugin, err := stack.BuildInTree(t.Context())
	must(t, err)
	f.programs(t, plugin)
	f.Stack = stack.StartT(t, stack.Options{Programs: built})
	f.cluster(t)
	return f
}

// programs fills the folder of programs.
func (f *fixture) programs(t *testing.T, plugin string) {
	t.Helper()
	must(t, os.CopyFS(f.path, os.DirFS(filepath.Join("testdata", "stand-ins"))))
	for _, name := range real {
		path, err := exec.LookPath(name)
		must(t, err)
		must(t, os.Symlink(path, filepath.Join(f.path, name)))
	}
	for name, why := range outside {
		script := "#!/bin/sh\n# " + why + "\n: > " + filepath.Join(f.used, name) + "\n"
		must(t, os.WriteFile(filepath.Join(f.path, name), []byte(script), 0o755)) //nolint:gosec // it is a program
	}
	must(t, os.Symlink(plugin, filepath.Join(f.path, filepath.Base(plugin))))
}

// cluster makes what the pages speak of.
func (f *fixture) cluster(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	must(t, f.Sim.AddNode(ctx, nodesim.Node{
		Name: "gpu-1", Labels: map[string]string{"gpu": "on"}, Devices: nodesim.GPUs("gpu-1", 2, cardMiB),
	}))
	must(t, f.Namespace(ctx, "team"))
	// Something must own the pod, so that it may be drained; what does not matter.
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}
	owner, err := f.Client.CoreV1().ConfigMaps("team").Create(ctx, owner, metav1.CreateOptions{})
	must(t, err)
	yes := true
	pod := stack.NewPod("team", "my-pod", stack.Init("load", stack.GPU(1, 16384)),
		stack.Sidecar("cache", stack.GPU(1, 2048)),
		stack.Init("warm", stack.GPU(1, 4096)), stack.App("serve", stack.GPU(1, 10240)))
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &yes,
	}}
	d := f.Drive(t, "team")
	d.Running(d.Submit(pod), "load")
	f.installed(t)
}

// installed makes the objects of an installation that the pages name. What decides over pods is the stack's already,
// and runs as processes: the installation's own pods are not scheduled.
func (f *fixture) installed(t *testing.T) {
	t.Helper()
	var objects []string
	for _, object := range strings.Split(f.kubectlDoes(t, "", "kustomize", filepath.Join(f.checkout, "deploy")),
		"\n---\n") {
		switch regexp.MustCompile(`(?m)^kind: (.+)$`).FindString(object) {
		case "kind: Namespace", "kind: ServiceAccount", "kind: Secret", "kind: Deployment", "kind: DaemonSet":
			objects = append(objects, object)
		}
	}
	f.kubectlDoes(t, strings.Join(objects, "\n---\n"), "apply", "-f", "-")
}

// kubectlDoes runs kubectl itself and returns what it prints.
func (f *fixture) kubectlDoes(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), f.kubectl, args...)
	cmd.Env, cmd.Stdin = append(f.environment(), "PATH="+os.Getenv("PATH")), strings.NewReader(stdin)
	out, err := process.Output(cmd)
	must(t, err)
	return out
}

// preemption is what docs/limits.md says of it: a pod of high priority that lacks a card's memory waits, in
// kube-scheduler's own words, and no pod is evicted.
func (f *fixture) preemption(t *testing.T) {
	ctx := t.Context()
	words := "Preemption is not helpful for scheduling"
	if text := strings.Join(strings.Fields(string(read(t, "docs", "limits.md"))), " "); !strings.Contains(text,
		`"`+words) {
		t.Errorf("docs/limits.md does not say %q", words)
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
	_, err := f.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	must(t, err)
	must(t, f.Namespace(ctx, "preemption"))
	const nodes = 3
	for i := range nodes {
		name := fmt.Sprintf("full-%d", i)
		must(t, f.Sim.AddNode(ctx, nodesim.Node{Name: name, Devices: nodesim.GPUs(name, 1, cardMiB)}))
	}
	d := f.Drive(t, "preemption")
	// One for each of these, and one for the card that my-pod leaves.
	low, err := f.CreateAll(ctx, nodes+1, func(i int) *corev1.Pod {
		return d.Pod(fmt.Sprintf("low-%d", i), stack.App("app", stack.GPU(1, cardMiB)))
	})
	must(t, err)
	for i := range low {
		low[i] = d.Scheduled(low[i])
	}
	pod := d.Pod("high", stack.App("app", stack.GPU(1, cardMiB)))
	pod.Spec.PriorityClassName = "high"
	var high *corev1.Pod
	d.Eventually("the API server knows the priority class", func(ctx context.Context) (err error) {
		high, err = f.Create(ctx, pod)
		return err
	})
	if message := d.Pending(high); !strings.Contains(message, words) {
		t.Errorf("it says %q, docs/limits.md something else", message)
	}
	for _, pod := range low {
		if there := d.Get(pod); there.DeletionTimestamp != nil {
			t.Errorf("pod %s was deleted at %v", pod.Name, there.DeletionTimestamp)
		}
	}
	d.Delete(append(low, high)...) // nothing is left on the nodes that the pages name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
