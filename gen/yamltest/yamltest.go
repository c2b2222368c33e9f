// Package yamltest reads objects from YAML, strictly. It is for tests of gen and of the binaries.
package yamltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Read returns the object in a text, which may have no unknown field.
func Read[T any](t testing.TB, text string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

// Manifest returns the one object of a kind in a file of a module's manifests, seen from a command's folder.
func Manifest[T any](t testing.TB, file, kind string) *T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		if strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			return Read[T](t, document)
		}
	}
	t.Fatalf("%s has no %s", file, kind)
	return nil
}
