package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/resource"
)

// IsURL reports whether the name of an input is a URL.
func IsURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// Open opens a file, a URL, or stdin under the name "-".
func Open(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, error) {
	switch {
	case name == "-":
		return io.NopCloser(stdin), nil
	case !IsURL(name):
		return os.Open(name)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: its answer is %s", name, answer.Status), answer.Body.Close())
	}
	return answer.Body, nil
}

// ReadFrom adds the objects of a file, a directory of manifests (and, recursively, those below it), a URL, or stdin
// under the name "-". What cannot be opened is an error, what cannot be read in it a problem of the set.
func (s *Set) ReadFrom(ctx context.Context, name string, recursive bool, stdin io.Reader, namespace string) error {
	paths, err := expand(name, recursive)
	if err != nil {
		return err
	}
	for _, path := range paths {
		in, err := Open(ctx, path, stdin)
		if err != nil {
			return err
		}
		if path == "-" {
			path = "standard input"
		}
		s.Read(in, path, namespace)
		if err := in.Close(); err != nil {
			return err
		}
	}
	return nil
}

// expand returns the manifests in a directory, and other names as they are. Which files are manifests, and in which
// order, is decided as in kubectl.
func expand(name string, recursive bool) ([]string, error) {
	if stat, err := os.Stat(name); err != nil || !stat.IsDir() {
		return []string{name}, nil
	}
	directory := strings.TrimSuffix(name, "/") + "/" // also follows a symbolic link
	visitors, err := resource.ExpandPathsToFileVisitors(nil, directory, recursive, resource.FileExtensions, nil)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, v := range visitors {
		if file, ok := v.(*resource.FileVisitor); ok {
			paths = append(paths, file.Path)
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file is in this directory", name)
	}
	return paths, nil
}
