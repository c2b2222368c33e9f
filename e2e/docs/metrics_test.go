package docs

import (
	"regexp"
	"strings"
	"testing"
)

// Metrics that pages name are in docs/metrics.md, which is made of what the binaries serve.
func TestMetricsOfPages(t *testing.T) {
	served := string(read(t, "docs", "metrics.md"))
	for _, page := range pages(t) {
		metric := regexp.MustCompile("`(phasegpu_[a-z_]+)")
		for _, name := range metric.FindAllStringSubmatch(string(read(t, page)), -1) {
			if !strings.HasSuffix(name[1], "_") && !strings.Contains(served, "`"+name[1]+"`") {
				t.Errorf("%s names %s, which nothing serves", page, name[1])
			}
		}
	}
}
