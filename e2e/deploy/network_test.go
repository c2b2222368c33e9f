package deploy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// peer is one end of a connection: a pod, or a host, which has no labels and which no selector selects.
type peer struct {
	namespace, pod labels.Set
	host           bool
}

// The NetworkPolicies allow exactly these connections.
func TestNetworkPolicies(t *testing.T) {
	each(t, func(t *testing.T, objects []*unstructured.Unstructured) {
		n := network{t, typed[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")}
		pods := map[string]Workload{}
		for _, w := range workloads(t, objects) {
			pods[w.Name] = w
		}
		for _, p := range n.policies {
			if !slices.ContainsFunc(slices.Collect(maps.Values(pods)),
				func(w Workload) bool { return n.applies(p, w) }) {
				t.Errorf("NetworkPolicy %s/%s selects no pod", p.Namespace, p.Name)
			}
		}
		callers := map[string]peer{
			"any pod": {namespace: labels.Set{corev1.LabelMetadataName: "team"},
				pod: labels.Set{"app.kubernetes.io/name": "phasegpu-device-plugin"}},
			"host": {host: true},
			"monitoring": {namespace: labels.Set{corev1.LabelMetadataName: "monitoring",
				"phasegpu.io/monitoring": "true"}},
			"kube-system":   {namespace: labels.Set{corev1.LabelMetadataName: "kube-system"}},
			"device plugin": of(pods["phasegpu-device-plugin"]),
			"webhook":       of(pods["phasegpu-webhook"]),
		}
		got := map[string][]string{}
		for to, w := range pods {
			for _, c := range w.Template.Spec.Containers {
				for _, port := range c.Ports {
					key := fmt.Sprintf("%s %d", to, port.ContainerPort)
					got[key] = []string{}
					for _, from := range slices.Sorted(maps.Keys(callers)) {
						if n.in(callers[from], w, port) {
							got[key] = append(got[key], from)
						}
					}
				}
			}
		}
		all, watchers := slices.Sorted(maps.Keys(callers)), []string{"kube-system", "monitoring"}
		want := map[string][]string{
			"phasegpu-webhook 8443":       all,
			"phasegpu-webhook 8080":       watchers,
			"phasegpu-scheduler 8080":     watchers,
			"phasegpu-scheduler 10259":    {"monitoring"},
			"phasegpu-numarefit 8443":     {"device plugin"},
			"phasegpu-numarefit 8080":     watchers,
			"phasegpu-device-plugin 8080": watchers,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("who may connect (-want +got):\n%s", diff)
		}

		// And where they themselves may go.
		dns := corev1.ContainerPort{ContainerPort: 53, Protocol: corev1.ProtocolUDP}
		server := corev1.ContainerPort{ContainerPort: 6443}
		refit := corev1.ContainerPort{Name: "https", ContainerPort: 8443}
		for name, w := range pods {
			plugin := name == "phasegpu-device-plugin"
			for what, c := range map[string]struct{ got, want bool }{
				"the API server": {n.out(w, peer{host: true}, server), true},
				"DNS":            {n.out(w, callers["kube-system"], dns), plugin},
				"numarefit":      {n.out(w, of(pods["phasegpu-numarefit"]), refit), plugin},
				"a tenant's pod": {n.out(w, callers["any pod"], corev1.ContainerPort{ContainerPort: 80}), false},
				"etcd":           {n.out(w, peer{host: true}, corev1.ContainerPort{ContainerPort: 2379}), false},
			} {
				if c.got != c.want {
					t.Errorf("%s may connect to %s: %t", name, what, c.got)
				}
			}
		}
	})
}

func of(w Workload) peer {
	return peer{namespace: labels.Set{corev1.LabelMetadataName: w.Namespace}, pod: labels.Set(w.Template.Labels)}
}

// network is the policies and their semantics.
type network struct {
	t        *testing.T
	policies []networkingv1.NetworkPolicy
}

func (n network) applies(p networkingv1.NetworkPolicy, w Workload) bool {
	return p.Namespace == w.Namespace && selects(n.t, &p.Spec.PodSelector, labels.Set(w.Template.Labels))
}

// in reports whether a pod takes connections at a port.
func (n network) in(from peer, to Workload, port corev1.ContainerPort) bool {
	return n.allows(networkingv1.PolicyTypeIngress, to, from, port)
}

// out reports whether a pod may make connections to a port.
func (n network) out(from Workload, to peer, port corev1.ContainerPort) bool {
	return n.allows(networkingv1.PolicyTypeEgress, from, to, port)
}

// allows reports whether the policies that select a pod allow a connection in one direction.
func (n network) allows(direction networkingv1.PolicyType, pod Workload, other peer, port corev1.ContainerPort) bool {
	closed := false
	for _, p := range n.policies {
		if !n.applies(p, pod) || !slices.Contains(p.Spec.PolicyTypes, direction) {
			continue
		}
		closed = true
		rules := p.Spec.Ingress
		if direction == networkingv1.PolicyTypeEgress {
			rules = nil
			for _, rule := range p.Spec.Egress {
				rules = append(rules, networkingv1.NetworkPolicyIngressRule{From: rule.To, Ports: rule.Ports})
			}
		}
		for _, rule := range rules {
			if n.names(p.Namespace, rule.From, other) && at(rule.Ports, port) {
				return true
			}
		}
	}
	return !closed
}

// names reports whether a rule applies to a peer. A rule without peers applies to all.
func (n network) names(namespace string, peers []networkingv1.NetworkPolicyPeer, who peer) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			n.t.Errorf("an address: %v", p.IPBlock)
		}
		if who.host {
			return false
		}
		if p.NamespaceSelector == nil {
			own := map[string]string{corev1.LabelMetadataName: namespace}
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: own}
		}
		if p.PodSelector == nil {
			p.PodSelector = &metav1.LabelSelector{}
		}
		return selects(n.t, p.NamespaceSelector, who.namespace) && selects(n.t, p.PodSelector, who.pod)
	})
}

// at reports whether a rule applies to a port. A rule without ports applies to all.
func at(ports []networkingv1.NetworkPolicyPort, port corev1.ContainerPort) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		protocol, wanted := corev1.ProtocolTCP, corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if port.Protocol != "" {
			wanted = port.Protocol
		}
		return protocol == wanted && (p.Port == nil || *p.Port == intstr.FromInt32(port.ContainerPort) ||
			port.Name != "" && *p.Port == intstr.FromString(port.Name))
	})
}
