package kind

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/e2e/stack"
	"github.com/phasegpu/phasegpu/gen/kube"
)

const (
	workloadImage = "phasegpu-workload:dev"
	workload      = "/usr/bin/workload"
	end           = "/end" // in the container's own layer: its next run does not find it
)

// Runs has a container take these steps of command workload, instead of printing its environment and running
// until Finish ends it.
func Runs(c stack.Container, steps ...string) stack.Container {
	c.Args = steps
	return c
}

// Pin confines a pod that is not yet created to these cards, by their UUIDs.
func Pin(pod *corev1.Pod, cards ...string) *corev1.Pod {
	return stack.Annotate(pod, wire.UseUUIDAnnotation, strings.Join(cards, ","))
}

// complete gives a pod's containers, which stack describes by name and resources alone, something to run.
func complete(pod *corev1.Pod) *corev1.Pod {
	root, grace := int64(0), int64(1)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &root} // so that it may write to its own layer
	for i := range stack.NumContainers(pod) {
		c := kube.Container(&pod.Spec, i)
		c.Image, c.ImagePullPolicy = workloadImage, corev1.PullNever
		if c.Args == nil {
			c.Args = []string{"env", "end=" + end}
		}
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	}
	return pod
}

// Exec runs the program of command workload in a running container, which takes these steps there.
func (c *Cluster) Exec(ctx context.Context, pod *corev1.Pod, container string, steps ...string) error {
	url := c.Client.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: append([]string{workload}, steps...), Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", url.String())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &out}); err != nil {
		return fmt.Errorf("pod %s/%s: workload %s in container %s: %w: %s",
			pod.Namespace, pod.Name, strings.Join(steps, " "), container, err, &out)
	}
	return nil
}

// AwaitRunning waits until a container runs.
func (c *Cluster) AwaitRunning(ctx context.Context, pod *corev1.Pod, container string) error {
	_, err := c.awaitRunning(ctx, pod, container)
	return err
}

func (c *Cluster) awaitRunning(ctx context.Context, pod *corev1.Pod, container string) (*corev1.Pod, error) {
	return c.Await(ctx, pod, "has "+container+" running", func(p *corev1.Pod) error {
		if status := stack.ContainerStatus(p, container); status == nil || status.State.Running == nil {
			return errors.New(stack.Describe(p))
		}
		return nil
	})
}

// Finish ends a container with an exit code, once it runs, and returns when kubelet has reported it.
func (c *Cluster) Finish(ctx context.Context, pod *corev1.Pod, container string, code int32) error {
	running, err := c.awaitRunning(ctx, pod, container)
	if err != nil {
		return err
	}
	err = c.Exec(ctx, pod, container, fmt.Sprintf("touch=%s.%d", end, code))
	exit := exec.ExitError(nil)
	// The container may end, and with it the process that made the file, before that process does.
	if err != nil && !(errors.As(err, &exit) && exit.ExitStatus() == 128+int(syscall.SIGKILL)) {
		return err
	}
	id := stack.ContainerStatus(running, container).ContainerID
	_, err = c.Await(ctx, pod, "has "+container+" ended", func(p *corev1.Pod) error {
		status := stack.ContainerStatus(p, container)
		if status != nil && status.ContainerID == id && status.State.Running != nil {
			return errors.New("it runs")
		}
		return nil
	})
	return err
}

// Environment returns the environment of a container that runs or has ended, as its first step printed it.
func (c *Cluster) Environment(ctx context.Context, pod *corev1.Pod, container string) (map[string]string, error) {
	var environment map[string]string
	what := fmt.Sprintf("container %s of pod %s/%s has printed its environment", container, pod.Namespace, pod.Name)
	err := stack.Eventually(ctx, what, func(ctx context.Context) error {
		logs := c.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container})
		text, err := logs.DoRaw(ctx)
		if err != nil {
			return err
		}
		line, _, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return errors.New("not yet")
		}
		return json.Unmarshal(line, &environment)
	})
	return environment, err
}
