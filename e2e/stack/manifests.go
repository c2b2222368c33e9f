package stack

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Kustomize builds a kustomization of the checkout, such as "deploy".
func Kustomize(root, dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(root, dir))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range built.Resources() {
		o := &unstructured.Unstructured{}
		text, err := resource.MarshalJSON()
		if err == nil {
			err = o.UnmarshalJSON(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// runsAsProcess reports whether an object is about the pods in which the product runs on a cluster: here it
// runs as processes.
func runsAsProcess(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Deployment", "DaemonSet", "PodDisruptionBudget", "Service":
		return true
	default:
		return false
	}
}

// pointAt makes a webhook configuration call a URL instead of a Service.
func pointAt(o *unstructured.Unstructured, url string, ca []byte) error {
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return err
	}
	for i := range webhooks {
		w, ok := webhooks[i].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: webhook %d is no object", o.GetName(), i)
		}
		path, _, err := unstructured.NestedString(w, "clientConfig", "service", "path")
		if err != nil {
			return fmt.Errorf("%s: webhook %d: %w", o.GetName(), i, err)
		}
		w["clientConfig"] = map[string]any{"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
	}
	return unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}

// Installer creates, applies and deletes objects of any kind.
type Installer struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

// NewInstaller asks the API server which kinds there are.
func NewInstaller(config *rest.Config) (*Installer, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(kinds)
	if err != nil {
		return nil, fmt.Errorf("discovering the API: %w", err)
	}
	return &Installer{client, restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

// Create creates an object.
func (i *Installer) Create(ctx context.Context, o *unstructured.Unstructured) error {
	return i.do("installing", o, func(r dynamic.ResourceInterface) error {
		_, err := r.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// Apply applies an object on the server, as `kubectl apply --server-side` does; or with metav1.DryRunAll has the server
// say what it thinks of it.
func (i *Installer) Apply(ctx context.Context, o *unstructured.Unstructured, dryRun ...string) error {
	return i.do("applying", o, func(r dynamic.ResourceInterface) error {
		_, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", DryRun: dryRun})
		return err
	})
}

// Delete deletes an object. That it is gone already is no error.
func (i *Installer) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	return i.do("deleting", o, func(r dynamic.ResourceInterface) error {
		background := metav1.DeletePropagationBackground
		err := r.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (i *Installer) do(what string, o *unstructured.Unstructured, do func(dynamic.ResourceInterface) error) error {
	kind := o.GroupVersionKind()
	mapping, err := i.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = i.client.Resource(mapping.Resource)
	switch namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace; {
	case namespaced:
		resource = i.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	case o.GetNamespace() != "":
		return fmt.Errorf("%s %s: a %s has no namespace, and this one names %s", what, o.GetName(), o.GetKind(),
			o.GetNamespace())
	}
	if err := do(resource); err != nil {
		return fmt.Errorf("%s %s %s: %w", what, o.GetKind(), o.GetName(), err)
	}
	return nil
}
