package classifiergen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/gen/classifiergen"
)

// run generates from the project's own declarations.
func run(t *testing.T, out string, files ...string) {
	t.Helper()
	if err := classifiergen.Run(classifiergen.Args{Families: "../families", Out: out, Blocks: files}); err != nil {
		t.Fatal(err)
	}
}

// TestFresh: the committed classifiers are what the declarations say.
func TestFresh(t *testing.T) {
	out := filepath.Join(t.TempDir(), "classify")
	run(t, out)
	files, err := os.ReadDir(out)
	if err != nil || len(files) == 0 {
		t.Fatalf("generated %v, %v", files, err)
	}
	for _, f := range files {
		got, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(filepath.Join("../classify", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(committed), string(got)); diff != "" {
			t.Errorf("%s is stale, run make generate (-committed +generated):\n%s", f.Name(), diff)
		}
	}
}

// TestNothingWrittenOnError: a missing marker leaves the classifiers as they were, and so do declarations
// that are wrong.
func TestNothingWrittenOnError(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "README.md")
	if err := os.WriteFile(file, []byte("no marker\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args classifiergen.Args
		want string
	}{
		{"no marker", classifiergen.Args{Families: "./testdata/tile", Blocks: []string{file}}, "README.md: no line says BEGIN GENERATED"},
		{"no declaration", classifiergen.Args{Families: "./testdata/none"}, "declares no family"},
		{"two packages", classifiergen.Args{Families: "./testdata/..."}, "must be one package"},
		{"no package", classifiergen.Args{}, "must be given"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.args.Out = filepath.Join(dir, "classify")
			err := classifiergen.Run(test.args)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if files, _ := os.ReadDir(test.args.Out); len(files) != 0 {
				t.Errorf("wrote %v", files)
			}
		})
	}
}

// TestOutside: a family made up in a module outside the repository is generated, compiles and
// classifies, with the versions that gen itself has.
func TestOutside(t *testing.T) {
	dir := t.TempDir()
	gen, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The versions are gen's own: its go.mod under another name, and its go.sum.
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("module github.com/phasegpu/phasegpu/gen", "module example.com/outside",
		"=> ../core", "=> "+filepath.Join(gen, "../core")).Replace(string(mod))
	write("go.mod", text+"require github.com/phasegpu/phasegpu/gen v0.0.0\nreplace github.com/phasegpu/phasegpu/gen => "+gen+"\n")
	write("go.sum", string(sum))
	declaration, err := os.ReadFile("testdata/tile/tile.go")
	if err != nil {
		t.Fatal(err)
	}
	write("families/tile.go", string(declaration))
	write("classify/classify_test.go", outsideTest)
	write("manifest.yaml", "managedResources:\n# BEGIN GENERATED managed-resources\n# END GENERATED managed-resources\n")
	for _, command := range [][]string{
		{"run", "github.com/phasegpu/phasegpu/gen/cmd/classifier-gen", "--families", "./families", "--out", "./classify", "manifest.yaml"},
		{"test", "./..."},
	} {
		cmd := exec.Command("go", command...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(command, " "), err, out)
		}
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := `managedResources:
# BEGIN GENERATED managed-resources
- name: tile.example/tiles
  ignoredByScheduler: false
- name: tile.example/memory
  ignoredByScheduler: true
- name: tile.example/cores
  ignoredByScheduler: true
# END GENERATED managed-resources
`
	if diff := cmp.Diff(want, string(manifest)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const outsideTest = `package classify

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/device"
)

func Test(t *testing.T) {
	tile := &corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"tile.example/tiles":  resource.MustParse("2"),
		"tile.example/memory": resource.MustParse("8"),
	}}
	want := device.Request{Family: "TILE", Devices: 2, MemoryMiB: 4096, Cores: 25}
	if got, err := Request(tile); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	other := &corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}
	if Asks(other) {
		t.Error("a family that is not declared here is known")
	}
	if Allocation("tile.example/allocation") != "TILE" || Family("TILE").MemoryBlockMiB != 512 {
		t.Error("the declaration is not what was generated")
	}
}
`
