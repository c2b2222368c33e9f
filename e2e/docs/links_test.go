package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are what people read, relative to the checkout.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md", "*/README.md", "*/manifests/README.md"} {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		must(t, err)
		for _, path := range paths {
			page, err := filepath.Rel(root, path)
			must(t, err)
			found = append(found, filepath.ToSlash(page))
		}
	}
	return found
}

// Links between pages lead to files that exist and to headings that are there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		text := withoutCode(string(read(t, page)))
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(match[1], "#")
			target := page
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
			} else if anchor != "" && !anchors(string(read(t, target)))[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", page, match[1], target)
			}
		}
	}
}

var fence = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")

// withoutCode returns a page without its fenced blocks.
func withoutCode(page string) string { return fence.ReplaceAllString(page, "") }

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(withoutCode(page), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		all[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return all
}
