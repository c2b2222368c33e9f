package stack

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	sigsyaml "sigs.k8s.io/yaml"
)

// readBase reads the objects of a kustomize base. It knows of kustomization.yaml only resources, which must
// be files beside it; generators and transformers of the bases matter to pods alone, and there are none here.
func readBase(dir string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	if err := sigsyaml.Unmarshal(text, &kustomization); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "kustomization.yaml"), err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range kustomization.Resources {
		read, err := readObjects(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		objects = append(objects, read...)
	}
	return objects, nil
}

func readObjects(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// runsAsProcess reports whether an object is about the pods in which the product runs on a cluster: here it
// runs as processes.
func runsAsProcess(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Deployment", "PodDisruptionBudget", "Service":
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
		return fmt.Errorf("%s %s: %s has no namespaces, and it names %s", what, o.GetName(), o.GetKind(), o.GetNamespace())
	}
	if err := do(resource); err != nil {
		return fmt.Errorf("%s %s %s: %w", what, o.GetKind(), o.GetName(), err)
	}
	return nil
}
