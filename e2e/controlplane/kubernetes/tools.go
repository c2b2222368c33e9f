//go:build tools

// Package kubernetes pins the Kubernetes programs that test clusters run. It is a module of its own, so
// that the dependencies of Kubernetes stay out of the workspace; nothing imports it. The replace lines in
// its go.mod are the ones that k8s.io/kubernetes needs for its staging modules.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubeadm"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
