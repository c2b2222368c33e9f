package docs

import (
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Every alert leads to its own section of docs/operations.md, which says what it means and what to do; and there
// are no sections on alerts that there are not.
func TestOperationsAlerts(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Labels      struct{ Severity string }
				Annotations struct {
					Runbook string `json:"runbook_url"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "monitoring", "rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	page := string(read(t, "docs", "operations.md"))
	sections := map[string]string{}
	for _, section := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			text, ok := sections[rule.Alert]
			delete(sections, rule.Alert)
			switch {
			case !ok:
				t.Errorf("docs/operations.md has no section on %s", rule.Alert)
			case !strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), rule.Labels.Severity+". "):
				t.Errorf("docs/operations.md: the section on %s does not begin with how bad it is: %s: %q", rule.Alert, rule.Labels.Severity, text)
			case !strings.Contains(text, "**Do"):
				t.Errorf("docs/operations.md: the section on %s does not say what to do", rule.Alert)
			}
			if want := "/docs/operations.md#" + strings.ToLower(rule.Alert); !strings.HasSuffix(rule.Annotations.Runbook, want) {
				t.Errorf("%s leads to %s, want %s", rule.Alert, rule.Annotations.Runbook, want)
			}
		}
	}
	for name := range sections {
		t.Errorf("docs/operations.md has a section on %s, and there is no such alert", name)
	}
}

// Metrics that pages name are in docs/metrics.md, which is made of what the binaries serve.
func TestMetricsOfPages(t *testing.T) {
	served := string(read(t, "docs", "metrics.md"))
	found := 0
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile("`(phasegpu_[a-z_]+)").FindAllStringSubmatch(string(read(t, page)), -1) {
			found++
			if !strings.HasSuffix(name[1], "_") && !strings.Contains(served, "`"+name[1]+"`") {
				t.Errorf("%s names %s, which nothing serves", page, name[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("%d metrics were found", found)
	}
}
