package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
)

// source has the objects that a command is about: files or a cluster.
type source interface {
	// pod returns a pod of the namespace that the user gave.
	pod(ctx context.Context, name string) (*corev1.Pod, error)
	// on returns a node, nil when there is none, and the pods with devices on it.
	on(ctx context.Context, node string) (*corev1.Node, []corev1.Pod, error)
	// each adds all nodes, the pods with devices that match one of these field selectors, and the quotas of a
	// namespace, or of all. Files ignore the selectors and the namespace.
	each(ctx context.Context, selectors []string, quotasOf string, to collector) error
}

// collector takes the objects that books are made of.
type collector interface {
	AddNode(*corev1.Node)
	AddPod(*corev1.Pod)
	AddQuota(*corev1.ResourceQuota)
}

// source returns the files that -f names, or the cluster; offline is what to give without one.
func (o *options) source(ctx context.Context, offline string) (source, error) {
	if len(o.files) == 0 {
		c, err := o.cluster()
		if err != nil {
			return nil, fmt.Errorf("%w (offline, give %s)", err, offline)
		}
		return c, nil
	}
	set, err := o.read(ctx, o.files, o.fileNamespace())
	if err != nil {
		return nil, err
	}
	o.writeProblems(set.Problems)
	if set.Failed() {
		return nil, errors.New("nothing is reported from objects of which some cannot be read")
	}
	return files{set, o.fileNamespace()}, nil
}

// files are the objects of files. namespace is the one that the user asked for.
type files struct {
	*input.Set
	namespace string
}

func (f files) pod(_ context.Context, name string) (*corev1.Pod, error) {
	for _, p := range f.Pods {
		if p.Kind == "Pod" && p.Namespace == f.namespace && p.Name == name {
			return p.Pod, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s is in none of the files (-n gives its namespace)", f.namespace, name)
}

func (f files) on(_ context.Context, name string) (node *corev1.Node, pods []corev1.Pod, err error) {
	for _, n := range f.Nodes {
		if n.Name == name {
			node = n
		}
	}
	for _, p := range f.Pods {
		if p.Kind == "Pod" && p.Spec.NodeName == name {
			pods = append(pods, *identified(p.Pod))
		}
	}
	return node, pods, nil
}

func (f files) each(_ context.Context, _ []string, _ string, to collector) error {
	for _, node := range f.Nodes {
		to.AddNode(node)
	}
	for _, pod := range f.Pods {
		if pod.Kind == "Pod" {
			to.AddPod(pod.Pod)
		}
	}
	for _, quota := range f.Quotas {
		to.AddQuota(quota)
	}
	return nil
}

// identified returns a pod with a UID. Pods in files may have none.
func identified(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.UID = cmp.Or(pod.UID, types.UID(pod.Namespace+"/"+pod.Name))
	return pod
}
