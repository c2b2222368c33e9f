package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/e2e/nodesim"
	"github.com/phasegpu/phasegpu/e2e/process"
	"github.com/phasegpu/phasegpu/e2e/stack"
)

// TestAudit holds `kubectl phasegpu audit` to finding nothing while pods come, change their phase and go, and
// to finding what is wrong in books that were tampered with. It has the rights that its help asks for.
func TestAudit(t *testing.T) {
	s := stack.StartT(t, stack.Options{})
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		must(t, s.Sim.AddNode(t.Context(), nodesim.Node{Name: name, Devices: nodesim.GPUs(name, 2, 24576)}))
	}
	must(t, s.Namespace(t.Context(), "ml"))
	must(t, s.Quota(t.Context(), "ml", "team", stack.Limit{"limits.nvidia.com/gpumem": "180000"}))
	a := newAuditor(t, s)

	t.Run("nothing is wrong while all moves", func(t *testing.T) {
		const lanes, audits = 4, 12
		ctx, stop := context.WithCancel(t.Context())
		var churn sync.WaitGroup
		turns := make([]int, lanes)
		for lane := range lanes {
			churn.Go(func() {
				for ctx.Err() == nil {
					if err := comeAndGo(ctx, s, fmt.Sprintf("lane-%d-%d", lane, turns[lane])); err != nil &&
						ctx.Err() == nil {
						t.Error(err)
						return
					}
					turns[lane]++
				}
			})
		}
		for range audits {
			if out, code := a.audit("--ledger", s.LedgerURL()); code != 0 {
				t.Errorf("exit code %d\n%s", code, out)
			}
		}
		stop()
		churn.Wait()
		t.Logf("%v pods came and went during %d audits", turns, audits)
		left, err := s.Client.CoreV1().Pods("ml").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		for i := range left.Items {
			must(t, s.Delete(t.Context(), &left.Items[i]))
		}
	})

	d := s.Drive(t, "ml")
	pod := d.Running(d.Submit(loader("train")), "load") // and now it stays as it is
	must(t, s.AwaitSeen(t.Context(), pod))
	node := pod.Spec.NodeName

	t.Run("tampered books", func(t *testing.T) {
		right := a.page(s.LedgerURL())
		for _, c := range []struct {
			name     string
			old, new string
			code     int
			words    []string
		}{
			{"as they are", "4 nodes", "4 nodes", 0,
				[]string{"4 nodes, 8 devices, 1 pod, 1 namespace, 1 quota line: no drift"}},
			{"an amount", `"memoryMiB": 16384`, `"memoryMiB": 20000`, 1, []string{"on node " + node, "pod ml/train",
				"books 20000 MiB", "recomputed 16384 MiB", "namespace ml, NVIDIA"}},
			{"another pod", string(pod.UID), "gone", 1,
				[]string{"the API server has no such pod", "the books do not have it"}},
			{"a node that is not there", `"name": "` + node + `"`, `"name": "n9"`, 1,
				[]string{"node n9", "the API server has no such node", "node " + node}},
			{"a limit", `"max": 180000`, `"max": 190000`, 1,
				[]string{"quota ml/team", "limited to 190000 in the books, to 180000 at the API server"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				out, code := a.audit("--ledger", a.file(strings.ReplaceAll(right, c.old, c.new)))
				if code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				must(t, stack.Lacks(out, c.words...))
			})
		}
	})

	t.Run("old books are not wrong", func(t *testing.T) {
		old := a.file(a.page(s.LedgerURL()))
		must(t, s.Sim.Finish(t.Context(), pod, "load", 0))
		must(t, s.AwaitReserved(t.Context(), pod, 8192))
		out, code := a.audit("--ledger", old)
		if code != 2 || !strings.Contains(out, "the books have seen pods up to") {
			t.Errorf("exit code %d\n%s", code, out)
		}
		if out, code := a.audit("--ledger", s.LedgerURL()); code != 0 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})

	t.Run("books that were rebuilt", func(t *testing.T) {
		must(t, s.Extender.Kill())
		if _, code := a.audit("--ledger", s.LedgerURL()); code != 2 {
			t.Errorf("exit code %d without an extender", code)
		}
		must(t, s.Extender.Start(t.Context()))
		if out, code := a.audit("--ledger", s.LedgerURL()); code != 0 {
			t.Errorf("exit code %d\n%s", code, out)
		}
	})
}

// comeAndGo has a pod scheduled, run through its phases and deleted.
func comeAndGo(ctx context.Context, s *stack.Stack, name string) error {
	pod, err := s.Create(ctx, loader(name))
	if err != nil {
		return err
	}
	if pod, err = s.AwaitBound(ctx, pod); err != nil {
		return err
	}
	return errors.Join(s.Sim.Finish(ctx, pod, "load", 0), s.Sim.AwaitRunning(ctx, pod, "serve"), s.Delete(ctx, pod))
}

func loader(name string) *corev1.Pod {
	return stack.NewPod("ml", name, stack.Init("load", stack.GPU(1, 16384)), stack.App("serve", stack.GPU(1, 8192)))
}

// auditor runs the command as a user who has the role for it and nothing else.
type auditor struct {
	t                   *testing.T
	kubectl, kubeconfig string
}

func newAuditor(t *testing.T, s *stack.Stack) *auditor {
	t.Helper()
	kubectl, err := stack.BuildKubectl(t.Context(), t.TempDir())
	must(t, err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "auditor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "phasegpu-auditor"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "auditor"}},
	}
	_, err = s.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	must(t, err)
	kubeconfig, err := s.Kubeconfig("auditor", s.User("auditor"))
	must(t, err)
	a := &auditor{t, kubectl, kubeconfig}
	must(t, stack.Eventually(t.Context(), "the auditor's rights are obeyed", func(context.Context) error {
		if out, code := a.audit("--ledger", s.LedgerURL()); code != 0 {
			return errors.New(out)
		}
		return nil
	}))
	return a
}

// audit returns what the command prints, and its exit code.
func (a *auditor) audit(args ...string) (string, int) {
	cmd := exec.CommandContext(a.t.Context(), a.kubectl,
		append([]string{"audit", "--kubeconfig", a.kubeconfig}, args...)...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		a.t.Error(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// page returns an extender's books as it shows them.
func (a *auditor) page(url string) string {
	a.t.Helper()
	text, err := process.Get(a.t.Context(), http.DefaultClient, url)
	must(a.t, err)
	return string(text)
}

func (a *auditor) file(text string) string {
	a.t.Helper()
	path := filepath.Join(a.t.TempDir(), "ledger.json")
	must(a.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
