package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// completion completes an argument, or the value of a flag, as far as toComplete goes.
type completion = func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completionTimeout is how long the cluster may take to complete a word.
const completionTimeout = 3 * time.Second

// complete completes the values of a flag.
func complete(c *cobra.Command, flag string, by completion) {
	if err := c.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // no such flag: a mistake in this package that any run of it shows
	}
}

// words completes with one of a fixed set.
func words(all ...string) completion {
	return func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return matching(all, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// matching returns the words that begin with what is there; behind a tab stands what a word is.
func matching(all []string, toComplete string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(word string) bool { return !strings.HasPrefix(word, toComplete) })
}

// fromCluster completes with what the cluster has; with nothing when it cannot be asked.
func (s *session) fromCluster(
	ctx context.Context, toComplete string, list func(context.Context, *cluster) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	c, err := s.cluster()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	names, err := list(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return matching(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// recent lists from the API server's cache, which costs least.
func recent() metav1.ListOptions { return metav1.ListOptions{ResourceVersion: "0"} }

// itemNames returns the names of a list's objects.
func itemNames[T any, P interface {
	*T
	GetName() string
}](items []T) []string {
	var all []string
	for i := range items {
		all = append(all, P(&items[i]).GetName())
	}
	return all
}

// namespaces completes namespaces.
func (s *session) namespaces(c *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return s.fromCluster(c.Context(), toComplete, func(ctx context.Context, c *cluster) ([]string, error) {
		list, err := c.client.Namespaces().List(ctx, recent())
		if err != nil {
			return nil, err
		}
		return itemNames(list.Items), nil
	})
}

// contexts completes contexts of the kubeconfig.
func (s *session) contexts(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	config, err := s.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return matching(slices.Sorted(maps.Keys(config.Contexts)), toComplete), cobra.ShellCompDirectiveNoFileComp
}

// pods completes pods with devices in the namespace, up to a number of them, each once.
func (s *session) pods(most int) completion {
	return func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.fromCluster(c.Context(), toComplete, func(ctx context.Context, c *cluster) ([]string, error) {
			var names []string
			err := c.eachPod(ctx, c.namespace, recent(), func(pod *corev1.Pod) {
				if !slices.Contains(args, pod.Name) {
					names = append(names, pod.Name+"\t"+location(pod))
				}
			})
			return names, err
		})
	}
}

// location describes where a pod is.
func location(pod *corev1.Pod) string {
	switch {
	case kube.IsTerminal(pod):
		return "ended"
	case pod.Spec.NodeName == "":
		return "waits for a node"
	}
	return "on " + pod.Spec.NodeName
}

// podAndContainer completes a pod, and then one of its containers.
func (s *session) podAndContainer(
	c *cobra.Command, args []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return s.pods(1)(c, args, toComplete)
	}
	return s.fromCluster(c.Context(), toComplete, func(ctx context.Context, c *cluster) ([]string, error) {
		pod, err := c.pod(ctx, args[0])
		if err != nil {
			return nil, err
		}
		var names []string
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				names = append(names, list[i].Name)
			}
		}
		return names, nil
	})
}
