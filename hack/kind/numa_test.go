package kind_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNUMATree writes two NUMA nodes for machines of several sizes: the first CPU, which kubelet keeps for
// itself, is alone on the first.
func TestNUMATree(t *testing.T) {
	tree := script(t, "numa", "tree")
	for _, tc := range []struct {
		online string
		want   map[string]string
	}{
		{"0-1", map[string]string{"node0": "0", "node1": "1"}},
		{"0-3,8", map[string]string{"node0": "0", "node1": "1,2,3,8"}},
		{"2,4", map[string]string{"node0": "2", "node1": "4"}},
	} {
		t.Run(tc.online, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "node")
			if out, err := exec.Command(tree, folder, tc.online).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got := map[string]string{}
			nodes, err := filepath.Glob(filepath.Join(folder, "node*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, node := range nodes {
				name := filepath.Base(node)
				got[name] = read(t, node, "cpulist")
				for cpu := range strings.SplitSeq(got[name], ",") {
					if id := read(t, node, "cpu"+cpu, "topology", "physical_package_id"); "node"+id != name {
						t.Errorf("CPU %s of %s says that it is on node %s", cpu, name, id)
					}
				}
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("CPUs by node are %q, want %q", got, tc.want)
			}
		})
	}

	t.Run("one CPU", func(t *testing.T) {
		out, err := exec.Command(tree, filepath.Join(t.TempDir(), "node"), "0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "need two CPUs") {
			t.Errorf("got %v and %q, want an error that asks for two CPUs", err, out)
		}
	})
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
