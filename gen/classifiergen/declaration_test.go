package classifiergen

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/gengo/v2/types"

	"github.com/phasegpu/phasegpu/gen/families"
)

const complete = `Tile is made up.

+phasegpu:family=TILE
+phasegpu:count=tile.example/tiles
+phasegpu:memory=tile.example/memory
+phasegpu:memoryBlockMiB=4
+phasegpu:memoryPercent=tile.example/percent
+phasegpu:cores=tile.example/cores
+phasegpu:defaultCores=25
+phasegpu:inventory=tile.example/inventory
+phasegpu:allocation=tile.example/allocation
+phasegpu:advertised=tile.example/tiles
+phasegpu:advertised=tile.example/cores
+phasegpu:refit=true`

// pkg is a package with one type per comment, called T0, T1, …
func pkg(comments ...string) *types.Package {
	p := &types.Package{Path: "example.com/families", Types: map[string]*types.Type{}}
	for i, comment := range comments {
		name := "T" + string(rune('0'+i))
		p.Types[name] = &types.Type{Name: types.Name{Package: p.Path, Name: name}, CommentLines: strings.Split(comment, "\n")}
	}
	return p
}

func TestDeclaration(t *testing.T) {
	all, err := declarations(pkg(complete, "no family"))
	if err != nil {
		t.Fatal(err)
	}
	want := []declaration{{"T0", families.Family{
		Word: "TILE", Count: "tile.example/tiles", Memory: "tile.example/memory", MemoryPercent: "tile.example/percent",
		Cores: "tile.example/cores", MemoryBlockMiB: 4, DefaultCores: 25,
		NodeAnnotation: "tile.example/inventory", PodAnnotation: "tile.example/allocation",
		Advertised: []corev1.ResourceName{"tile.example/tiles", "tile.example/cores"}, Refit: true,
	}}}
	if diff := cmp.Diff(want, all, cmp.AllowUnexported(declaration{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeclarationErrors(t *testing.T) {
	without := func(marker string) string {
		var kept []string
		for line := range strings.Lines(complete) {
			if !strings.HasPrefix(line, "+phasegpu:"+marker+"=") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	with := func(line string) string { return complete + "\n+phasegpu:" + line }
	for _, test := range []struct {
		name     string
		comments []string
		want     string
	}{
		{"none", []string{"no family"}, "package example.com/families declares no family: mark a type with +phasegpu:family=WORD"},
		{"no word", []string{without("family")}, "type T0: marker +phasegpu:family is missing"},
		{"no count", []string{without("count")}, "type T0: marker +phasegpu:count is missing"},
		{"no inventory", []string{without("inventory")}, "type T0: marker +phasegpu:inventory is missing"},
		{"nothing advertised", []string{without("advertised")}, "type T0: marker +phasegpu:advertised is missing: name the resource that kubelet advertises"},
		{"twice", []string{with("cores=tile.example/other")}, "type T0: marker +phasegpu:cores is given twice: keep one"},
		{"unknown", []string{with("colour=blue")}, "type T0: marker +phasegpu:colour is unknown: see package families for the markers"},
		{"foreign", []string{with("advertised=nvidia.com/gpu")}, `type T0: marker +phasegpu:advertised has value "nvidia.com/gpu", which is none of the family's resources`},
		{"no number", []string{without("memoryBlockMiB") + "\n+phasegpu:memoryBlockMiB=many"}, `type T0: marker +phasegpu:memoryBlockMiB has value "many": write a whole number from 1 to 8388608`},
		{"cores over 100", []string{without("defaultCores") + "\n+phasegpu:defaultCores=101"}, `type T0: marker +phasegpu:defaultCores has value "101": write a whole number from 0 to 100`},
		{"no truth", []string{without("refit") + "\n+phasegpu:refit=yes"}, `type T0: marker +phasegpu:refit has value "yes": write true, or leave it out`},
		{"quote", []string{without("count") + "\n+phasegpu:count=tile.example/o'tiles"}, `type T0: marker +phasegpu:count has value "tile.example/o'tiles": use letters, digits, '.', '_', '/' and '-'`},
		{"shared", []string{complete, complete}, "types T0 and T1 both declare family TILE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := declarations(pkg(test.comments...))
			if err == nil || err.Error() != test.want {
				t.Errorf("got error\n%v, want\n%s", err, test.want)
			}
		})
	}
}
