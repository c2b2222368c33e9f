package input

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read reads one input and returns what was found in it, in words.
func read(text string) (found []string, problems []string) {
	var s Set
	s.Read(strings.NewReader(text), "f", "ns")
	for _, p := range s.Pods {
		found = append(found, fmt.Sprintf("%s %s/%s x%d at %d:%d", p.Kind, p.Namespace, p.Name, p.Replicas, p.Document,
			p.Line))
	}
	for _, n := range s.Nodes {
		found = append(found, "Node "+n.Name)
	}
	for _, q := range s.Quotas {
		found = append(found, "ResourceQuota "+q.Namespace+"/"+q.Name)
	}
	for _, p := range s.Problems {
		word := "error"
		if p.Warning {
			word = "warning"
		}
		problems = append(problems, word+" "+p.Error())
	}
	return found, problems
}

const containers = `{containers: [{name: a, image: x}]}`

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text      string
		found, problems []string
	}{
		{
			"documents are counted without the empty ones, lines with them",
			"# license\n---\n\n--- # first\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: " + containers + "\n---\n...\n--- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: nn}, spec: " + containers + "}\n",
			[]string{"Pod ns/a x0 at 1:5", "Pod nn/b x0 at 2:11"}, nil,
		},
		{
			"line ends of DOS",
			"apiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a}\r\nspec: " + containers + "\r\n---\r\napiVersion: " +
				"v1\r\nkind: Node\r\nmetadata: {name: node}\r\n",
			[]string{"Pod ns/a x0 at 1:1", "Node node"}, nil,
		},
		{
			"a flow mapping is not JSON",
			"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: " + containers + "}",
			[]string{"Pod ns/a x0 at 1:1"}, nil,
		},
		{
			"lists of all kinds, and lists in lists",
			"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: NodeList, items: [{metadata: {name: " +
				"node}}]}, {apiVersion: v1, kind: ResourceQuota, metadata: {name: q}}]}",
			[]string{"Node node", "ResourceQuota ns/q"}, nil,
		},
		{
			"every workload of Kubernetes",
			strings.Join([]string{
				"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 2, template: {spec: " + containers + "}}}",
				"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: b}, spec: {template: {spec: " + containers + "}}}",
				"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: c}, spec: {template: {spec: " + containers + "}}}",
				"{apiVersion: batch/v1, kind: Job, metadata: {generateName: d-}, spec: {template: {spec: " + containers + "}}}",
				"{apiVersion: v1, kind: ReplicationController, metadata: {name: e}, spec: {template: {spec: " + containers + "}}}",
				"{apiVersion: v1, kind: PodTemplate, metadata: {name: f}, template: {spec: " + containers + "}}",
			}, "\n---\n"),
			[]string{
				"StatefulSet ns/a x2 at 1:1", "DaemonSet ns/b x0 at 2:3", "ReplicaSet ns/c x0 at 3:5", "Job ns/d- x0 " +
					"at 4:7",
				"ReplicationController ns/e x0 at 5:9", "PodTemplate ns/f x0 at 6:11",
			}, nil,
		},
		{
			"custom kinds, with several templates anywhere",
			"{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: {spec: " + containers + "}}, workerGroupSpecs: [{replicas: 3, template: {spec: " + containers + "}}]}}",
			[]string{"RayCluster ns/r/headGroupSpec x0 at 1:1", "RayCluster ns/r/workerGroupSpecs[0] x3 at 1:1"}, nil,
		},
		{
			"a kind of the same name from elsewhere",
			"{apiVersion: example.com/v1, kind: Pod, metadata: {name: p}, spec: " + containers + "}\n---\n{apiVersion: example.com/v1, kind: Node, metadata: {name: n}}",
			nil, nil,
		},
		{
			"what does not fit its field",
			"{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: 7, image: x}]}}",
			nil, []string{"error f, document 1 (line 1), Pod ns/p: spec.containers.name: is a number where a text " +
				"should be: put it in quotes"},
		},
		{
			"what YAML takes for something else",
			"{apiVersion: v1, kind: Node, metadata: {name: n}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p, " +
				"namespace: 7}, spec: " + containers + "}",
			nil, []string{
				"error f, document 1 (line 1), Node: metadata.name: is true or false where a text should be: put it " +
					"in quotes",
				"error f, document 2 (line 3), Pod ns/p: metadata.namespace: is a number where a text should be: put " +
					"it in quotes",
			},
		},
		{
			"quantities of nodes and quotas",
			"{apiVersion: v1, kind: Node, metadata: {name: node}, status: {capacity: {nvidia.com/gpu: " +
				"[1]}}}\n---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: " +
				"{limits.nvidia.com/gpumem: 1e}}}",
			nil, []string{
				"error f, document 1 (line 1), Node node: status.capacity[nvidia.com/gpu]: is a list where a " +
					"quantity should be",
				"error f, document 2 (line 3), ResourceQuota ns/q: spec.hard[limits.nvidia.com/gpumem]: \"1e\" is " +
					"not a quantity",
			},
		},
		{
			"an empty container list in a template",
			"{apiVersion: example.com/v1, kind: X, metadata: {name: p}, spec: {template: {spec: {containers: []}}}}",
			nil, []string{"error f, document 1 (line 1), X ns/p, spec.template: spec.containers: is empty: a pod has " +
				"at least one container"},
		},
		{
			"one key in two forms",
			"{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {1: a, \"1\": b}}}",
			nil, []string{"error f, document 1 (line 1): metadata.labels.1: is given twice"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, problems := read(c.text)
			if diff := cmp.Diff(c.found, found); diff != "" {
				t.Errorf("found: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems: -want +got\n%s", diff)
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	// A long string that is repeated by aliases: few nodes, so the YAML library lets it pass.
	var bomb strings.Builder
	bomb.WriteString("a: &a " + strings.Repeat("x", 1<<20) + "\nb:\n")
	for range 300 {
		bomb.WriteString("- *a\n")
	}
	// Lists of lists of lists.
	nested := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		nested += fmt.Sprintf("%c: &%c [%s]\n", c, c,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	for _, c := range []struct{ name, text, problem string }{
		{"size", strings.Repeat("#", MaxBytes+1), "larger than 64 MiB"},
		{"repeated string", bomb.String(), "the document's aliases expand to more than"},
		{"nested lists", nested, "excessive aliasing"},
		{"depth", "a: " + strings.Repeat("[", 100_000), "exceeded max depth"},
		{"depth of JSON", strings.Repeat(`{"a":`, 100_000), "exceeded max depth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, problems := read(c.text)
			if len(found) > 0 || len(problems) != 1 || !strings.Contains(problems[0], c.problem) {
				t.Errorf("found %q, problems %.300q, want one of %q", found, problems, c.problem)
			}
		})
	}
}

// Directories are read as kubectl reads them, and URLs are fetched.
func TestReadFrom(t *testing.T) {
	pod := func(name string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: " + containers + "}"
	}
	directory := t.TempDir()
	for path, text := range map[string]string{
		"some/b.yml": pod("b"), "some/a.json": pod("a"), "some/notes.txt": "no manifest", "some/below/c.yaml": pod("c"), "none/x.txt": "",
	} {
		path = filepath.Join(directory, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("some", filepath.Join(directory, "link")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pod" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, pod("far"))
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		name      string
		recursive bool
		found     []string
		err       string
	}{
		{"-", false, []string{"standard input in"}, ""},
		{directory + "/some", false, []string{directory + "/some/a.json a", directory + "/some/b.yml b"}, ""},
		{directory + "/link", false, []string{directory + "/link/a.json a", directory + "/link/b.yml b"}, ""},
		{directory + "/some", true, []string{
			directory + "/some/a.json a", directory + "/some/b.yml b", directory + "/some/below/c.yaml c",
		}, ""},
		{directory + "/none", false, nil, "no .yaml, .yml or .json file is in this directory"},
		{directory + "/gone", false, nil, "no such file"},
		{server.URL + "/pod", false, []string{server.URL + "/pod far"}, ""},
		{server.URL + "/gone", false, nil, "/gone: its answer is 404 Not Found"},
	} {
		var s Set
		err := s.ReadFrom(t.Context(), c.name, c.recursive, strings.NewReader(pod("in")), "ns")
		var found []string
		for _, p := range s.Pods {
			found = append(found, p.File+" "+p.Name)
		}
		if diff := cmp.Diff(c.found, found); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: " + containers)
	f.Add(`{"kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"1"}}}]}}]}`)
	f.Add("---\n# nothing\n--- &a\nkind: Job\nmetadata: {name: *a}\n...\n---\n!!binary x\n")
	f.Add("kind: X\nmetadata: {name: x}\nspec: {a: [{template: {spec: " + containers + "}}]}")
	f.Fuzz(func(t *testing.T, text string) {
		var s Set
		s.Read(strings.NewReader(text), "f", "ns")
		for _, p := range s.Pods {
			if p.Namespace == "" || p.Name == "" || len(p.Spec.Containers) == 0 {
				t.Errorf("%v: a pod without namespace, name or containers", p.Source)
			}
		}
		if s.RequirePods(); len(s.Pods) == 0 && !s.Failed() {
			t.Error("no pod, and nothing says why")
		}
		for _, p := range s.Problems {
			if p.Err == nil || p.Error() == "" {
				t.Errorf("a problem that says nothing: %#v", p)
			}
		}
	})
}
