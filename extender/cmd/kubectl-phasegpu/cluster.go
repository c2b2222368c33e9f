package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl knows
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"

	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// cluster is the cluster that kubectl's flags and the kubeconfig select.
type cluster struct {
	client    corev1client.CoreV1Interface
	leases    coordinationv1client.LeasesGetter
	namespace string
}

func (s *session) cluster() (*cluster, error) {
	config, err := s.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w", err)
	}
	loader := s.config.ToRawKubeConfigLoader()
	if config.Host == clientcmd.ClusterDefaults.Server && *s.config.APIServer == "" { // kubectl's default
		raw, err := loader.RawConfig()
		if err == nil {
			err = clientcmd.ConfirmUsable(raw, *s.config.Context)
		}
		if err != nil {
			return nil, fmt.Errorf("no cluster to ask: %w", err)
		}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "kubectl-phasegpu"
	config.QPS = -1 // few requests: no need for client-side throttling
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &cluster{client, leases, namespace}, nil
}

// pods adds the pods of these names; one that cannot be read is a problem of the set.
func (c *cluster) pods(ctx context.Context, set *input.Set, names []string) {
	for _, name := range names {
		pod, err := c.client.Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			set.Fail(input.Source{Object: "Pod " + c.namespace + "/" + name}, err)
			continue
		}
		set.AddPod(pod)
	}
}

func (c *cluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := c.client.Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s/%s: %w (-n gives another namespace; "+
			"kubectl get pods -A --field-selector metadata.name=%s finds it)", c.namespace, name, err, name)
	}
	return pod, err
}

func (c *cluster) on(ctx context.Context, name string) (*corev1.Node, []corev1.Pod, error) {
	node, err := c.client.Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	there := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()}
	var pods []corev1.Pod
	err = c.eachPod(ctx, metav1.NamespaceAll, there, func(pod *corev1.Pod) { pods = append(pods, *pod) })
	return node, pods, err
}

// onNodes selects the pods that have a node, and those that are nominated to one.
func onNodes() []string {
	nominated := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", ""),
		fields.OneTermNotEqualSelector("status.nominatedNodeName", ""))
	return []string{fields.OneTermNotEqualSelector("spec.nodeName", "").String(), nominated.String()}
}

// allPods selects every pod.
func allPods() []string { return []string{""} }

func (c *cluster) each(ctx context.Context, selectors []string, quotasOf string, to collector) error {
	var adding sync.Mutex
	lists, listing := errgroup.WithContext(ctx)
	lists.Go(func() error {
		return eachItem(listing, "nodes", c.client.Nodes().List, metav1.ListOptions{}, func(node *corev1.Node) {
			adding.Lock()
			defer adding.Unlock()
			to.AddNode(node)
		})
	})
	lists.Go(func() error {
		list := c.client.ResourceQuotas(quotasOf).List
		return eachItem(listing, "quotas", list, metav1.ListOptions{}, func(quota *corev1.ResourceQuota) {
			adding.Lock()
			defer adding.Unlock()
			to.AddQuota(quota)
		})
	})
	for _, selector := range selectors {
		lists.Go(func() error {
			selected := metav1.ListOptions{FieldSelector: selector}
			return c.eachPod(listing, metav1.NamespaceAll, selected, func(pod *corev1.Pod) {
				adding.Lock()
				defer adding.Unlock()
				to.AddPod(pod)
			})
		})
	}
	return lists.Wait()
}

// eachPod lists pods page by page and leaves out those without devices.
func (c *cluster) eachPod(
	ctx context.Context, namespace string, options metav1.ListOptions, each func(*corev1.Pod),
) error {
	return eachItem(ctx, "pods", c.client.Pods(namespace).List, options, func(pod *corev1.Pod) {
		if kube.Tracked(pod) {
			each(pod)
		}
	})
}

// eachItem lists objects page by page, all as of one moment.
func eachItem[List, Item runtime.Object](
	ctx context.Context, what string, list func(context.Context, metav1.ListOptions) (List, error),
	options metav1.ListOptions, each func(Item),
) error {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return list(ctx, options)
	})
	err := pages.EachListItem(ctx, options, func(object runtime.Object) error {
		item, ok := object.(Item)
		if !ok {
			return errors.New("the answer holds something else")
		}
		each(item)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s cannot be listed: %w", what, err)
	}
	return nil
}
