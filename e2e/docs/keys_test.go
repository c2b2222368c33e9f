package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/classify"
	"github.com/phasegpu/phasegpu/gen/kube"
)

// Every annotation that package wire declares and a pod's author may set has a section of docs/howto.md, and
// every section is about such an annotation. A section names the values that are accepted.
func TestHowtoAnnotations(t *testing.T) {
	sections := sectionsOf(string(read(t, "docs", "howto.md")))
	for _, key := range declared(t) {
		if classify.Protected(key) || key == wire.NudgeAnnotation || key == wire.CordonAnnotation {
			continue // written by phasegpu, or of a node
		}
		section, ok := sections[key]
		if !ok {
			t.Errorf("docs/howto.md has no section ### `%s`", key)
			continue
		}
		delete(sections, key)
		for _, value := range accepted(key) {
			if !strings.Contains(section, "`"+value+"`") && !strings.Contains(section, "`\""+value+"\"`") {
				t.Errorf("docs/howto.md: the section on %s does not name the value %s", key, value)
			}
		}
	}
	for key := range sections {
		t.Errorf("docs/howto.md has a section on %s, which package wire does not declare", key)
	}
}

// accepted returns the values of a pod's annotation, by what is said of another; none when any will do.
func accepted(key string) []string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "no such value"}}}
	_, err := kube.PlacementPod(pod, placement.Binpack, placement.Binpack)
	if err == nil {
		_, err = kube.Release(pod, phase.PerInit)
	}
	if err == nil {
		return nil
	}
	_, values, _ := strings.Cut(err.Error(), ": use ")
	return regexp.MustCompile(`, | or `).Split(values, -1)
}

// declared returns the annotation keys among the constants of package wire.
func declared(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "core", "wire", "wire.go"), nil, 0)
	must(t, err)
	var keys []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if key, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(key, "/") {
				keys = append(keys, key)
			}
		}
		return true
	})
	if len(keys) == 0 {
		t.Fatal("package wire declares no keys")
	}
	return keys
}

// sectionsOf returns the text of each section whose heading is a key, by key.
func sectionsOf(text string) map[string]string {
	sections := map[string]string{}
	heading := regexp.MustCompile("(?m)^### `([^`]+)`$")
	for _, at := range heading.FindAllStringSubmatchIndex(text, -1) {
		section := text[at[1]:]
		if end := strings.Index(section, "\n##"); end >= 0 {
			section = section[:end]
		}
		sections[text[at[2]:at[3]]] = section
	}
	return sections
}

// Every key of a ResourceQuota that phasegpu reads is on the page, and the keys on the page are read.
func TestHowtoQuotaKeys(t *testing.T) {
	text := string(read(t, "docs", "howto.md"))
	quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, f := range classify.Families() {
		for _, name := range f.Resources() {
			for _, prefix := range []string{"limits.", "requests."} {
				quota.Spec.Hard[corev1.ResourceName(prefix)+name] = resource.MustParse("1")
			}
		}
	}
	q, err := kube.Quota(quota)
	must(t, err)
	var known []string
	for _, limit := range q.Limits {
		known = append(known, limit.Resource)
		if !strings.Contains(text, "`"+limit.Resource+"`") {
			t.Errorf("docs/howto.md does not name %s", limit.Resource)
		}
	}
	key := regexp.MustCompile("`((?:limits|requests)\\.[^` ]+/[^` ]+)`")
	for _, match := range key.FindAllStringSubmatch(text, -1) {
		word, _ := classify.Resource(corev1.ResourceName(match[1][strings.Index(match[1], ".")+1:]))
		// Only the API server reads this one.
		if word == "" || !slices.Contains(known, match[1]) && match[1] != "requests.nvidia.com/gpu" {
			t.Errorf("docs/howto.md names %s, which is not read", match[1])
		}
	}
}

// Every key of ours that is spelled anywhere in the products' code is on the page, or a resource's name.
func TestHowtoHasEveryKey(t *testing.T) {
	text := string(read(t, "docs", "howto.md"))
	key := regexp.MustCompile(`"((?:[a-z]+\.)?(?:hami|phasegpu)\.io/[A-Za-z0-9-]+|nvidia\.com/[A-Za-z0-9-]+)"`)
	for _, module := range []string{"core", "gen", "webhook", "extender", "deviceplugin", "numarefit"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, match := range key.FindAllStringSubmatch(string(read(t, strings.TrimPrefix(path, root))), -1) {
				word, _ := classify.Resource(corev1.ResourceName(match[1]))
				if word == "" && !strings.Contains(text, "`"+match[1]+"`") {
					t.Errorf("docs/howto.md does not name %s, of %s", match[1], path)
				}
			}
			return nil
		})
		must(t, err)
	}
}
