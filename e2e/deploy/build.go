package deploy

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Build builds a kustomization of the checkout, such as "deploy".
func Build(root, dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, dir))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range built.Resources() {
		text, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// Workload is an object that makes pods.
type Workload struct {
	Kind, Namespace, Name string
	Template              corev1.PodTemplateSpec
}

// Workloads returns those among the objects. Fields that pods do not have are an error.
func Workloads(objects []*unstructured.Unstructured) ([]Workload, error) {
	var all []Workload
	for _, o := range objects {
		template, there, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if !there {
			continue
		}
		w := Workload{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, &w.Template, true); err != nil {
			return nil, fmt.Errorf("%s %s: %w", w.Kind, w.Name, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// Typed returns the objects of a kind, as that type. Fields that it does not have are an error.
func Typed[T any](objects []*unstructured.Unstructured, kind string) ([]T, error) {
	var all []T
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, o.GetName(), err)
		}
		all = append(all, typed)
	}
	return all, nil
}
