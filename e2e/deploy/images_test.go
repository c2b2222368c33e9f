package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

// What brings the images onto a cluster builds the commands that they hold, and no others.
func TestImagesAreBuilt(t *testing.T) {
	root, err := checkout.Root()
	must(t, err)
	dockerfile, err := os.ReadFile(filepath.Join(root, "kind", "images", "Dockerfile"))
	must(t, err)
	all := func(pattern string, text []byte) (names []string) {
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
		slices.Sort(names)
		return names
	}
	held := all(`(?m)^COPY (\S+) /usr/bin/$`, dockerfile)
	if len(held) != 5 {
		t.Errorf("images hold %q", held)
	}
	for _, target := range []string{"images", "kind-up"} {
		cmd := exec.CommandContext(t.Context(), "make", "-n", target)
		cmd.Dir = root
		said, err := cmd.Output()
		must(t, err)
		if diff := cmp.Diff(held, all(`go build .*"\./\S+/cmd/(\S+)"`, said)); diff != "" {
			t.Errorf("make %s builds (-held +built):\n%s", target, diff)
		}
	}
}
