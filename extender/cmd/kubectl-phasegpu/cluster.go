package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// cluster is the cluster of the user's kubeconfig.
type cluster struct {
	client    corev1client.CoreV1Interface
	leases    coordinationv1client.LeasesGetter
	namespace string
}

// fileNamespace is the namespace of objects in files that name none, when no cluster is asked.
func (o *options) fileNamespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	return metav1.NamespaceDefault
}

func (o *options) cluster() (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	overrides.Context.Namespace = o.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.UserAgent = "kubectl-phasegpu"
	config.QPS = -1 // a person's command makes few requests; no need to wait between them
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
		source := input.Source{Object: "Pod " + c.namespace + "/" + name}
		pod, err := c.client.Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			set.Problems = append(set.Problems, input.Problem{Source: source, Err: err})
			continue
		}
		set.Pods = append(set.Pods, input.Pod{Pod: pod, Source: source, Kind: "Pod"})
	}
}

// pod returns a pod of the namespace.
func (c *cluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := c.client.Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s/%s: %w (-n gives another namespace; kubectl get pods -A --field-selector metadata.name=%s finds it)", c.namespace, name, err, name)
	}
	return pod, err
}

// podsWithDevices adds all pods that ask for devices and match a label selector.
func (c *cluster) podsWithDevices(ctx context.Context, set *input.Set, everywhere bool, selector string) error {
	namespace := c.namespace
	if everywhere {
		namespace = metav1.NamespaceAll
	}
	return c.eachPod(ctx, namespace, metav1.ListOptions{LabelSelector: selector}, func(pod *corev1.Pod) {
		if kube.Asks(&pod.Spec) {
			set.Pods = append(set.Pods, fromCluster(pod))
		}
	})
}

func fromCluster(pod *corev1.Pod) input.Pod {
	return input.Pod{Pod: pod, Source: input.Source{Object: "Pod " + pod.Namespace + "/" + pod.Name}, Kind: "Pod"}
}

// state adds what pods are placed on: the nodes, the pods with devices on them, and the quotas.
func (c *cluster) state(ctx context.Context, set *input.Set) error {
	err := c.each(ctx, onNodes(), metav1.NamespaceAll, collector{
		node:  func(node *corev1.Node) { set.Nodes = append(set.Nodes, node) },
		pod:   func(pod *corev1.Pod) { set.Pods = append(set.Pods, fromCluster(pod)) },
		quota: func(quota *corev1.ResourceQuota) { set.Quotas = append(set.Quotas, quota) },
	})
	if err != nil {
		return fmt.Errorf("%w (give --nodes FILE instead)", err)
	}
	return nil
}

// collector takes the objects that the books are made of.
type collector struct {
	node  func(*corev1.Node)
	pod   func(*corev1.Pod)
	quota func(*corev1.ResourceQuota)
}

// take adds objects of files.
func (to collector) take(set *input.Set) {
	for _, node := range set.Nodes {
		to.node(node)
	}
	for _, pod := range set.Pods {
		if pod.Kind == "Pod" {
			to.pod(pod.Pod)
		}
	}
	for _, quota := range set.Quotas {
		to.quota(quota)
	}
}

// onNodes selects the pods that hold something of nodes, and those for whom something is kept.
func onNodes() []string {
	return []string{
		fields.OneTermNotEqualSelector("spec.nodeName", "").String(),
		fields.AndSelectors(fields.OneTermEqualSelector("spec.nodeName", ""), fields.OneTermNotEqualSelector("status.nominatedNodeName", "")).String(),
	}
}

// each lists nodes, pods with devices that match one of these field selectors and the quotas of a namespace or all,
// beside each other.
func (c *cluster) each(ctx context.Context, pods []string, quotasOf string, to collector) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var taking sync.Mutex // by the collector
	var lists sync.WaitGroup
	all := []func() error{
		func() error {
			return c.eachNode(ctx, func(node *corev1.Node) {
				taking.Lock()
				defer taking.Unlock()
				to.node(node)
			})
		},
		func() error {
			quotas, err := c.client.ResourceQuotas(quotasOf).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("quotas cannot be listed: %w", err)
			}
			taking.Lock()
			defer taking.Unlock()
			for i := range quotas.Items {
				to.quota(&quotas.Items[i])
			}
			return nil
		},
	}
	for _, selector := range pods {
		all = append(all, func() error {
			return c.eachPod(ctx, metav1.NamespaceAll, metav1.ListOptions{FieldSelector: selector}, func(pod *corev1.Pod) {
				taking.Lock()
				defer taking.Unlock()
				to.pod(pod)
			})
		})
	}
	errs := make([]error, len(all))
	for i, list := range all {
		lists.Go(func() {
			if errs[i] = list(); errs[i] != nil {
				cancel() // the others are of no use
			}
		})
	}
	lists.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// eachNode lists nodes page by page.
func (c *cluster) eachNode(ctx context.Context, each func(*corev1.Node)) error {
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.client.Nodes().List(ctx, options)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		each(object.(*corev1.Node))
		return nil
	})
	if err != nil {
		return fmt.Errorf("nodes cannot be listed: %w", err)
	}
	return nil
}

// eachPod lists pods page by page, all as of one moment, and keeps none that has to do with no device.
func (c *cluster) eachPod(ctx context.Context, namespace string, options metav1.ListOptions, each func(*corev1.Pod)) error {
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.client.Pods(namespace).List(ctx, options)
	})
	err := list.EachListItem(ctx, options, func(object runtime.Object) error {
		if pod := object.(*corev1.Pod); kube.Tracked(pod) {
			each(pod)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pods cannot be listed: %w", err)
	}
	return nil
}
