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

// installer creates objects of any kind.
type installer struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newInstaller(config *rest.Config) (*installer, error) {
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
	return &installer{client, restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

// install creates an object.
func (i *installer) install(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := i.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = i.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = i.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	_, err = resource.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("installing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}
