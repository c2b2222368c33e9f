package signals

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/checkout"
)

// anchors are what GitHub makes of a heading.
func anchors(markdown []byte) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(string(markdown)) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			text := strings.ToLower(strings.TrimSpace(heading))
			text = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(text, "")
			all[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return all
}

// Each alert is of metrics that there are, links to its section of docs/operations.md, and has been seen to fire; and
// that page has no section on another alert.
func TestRules(t *testing.T) {
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalStrict(read(t, "monitoring", "rules.yaml"), &rules,
		yaml.DisallowUnknownFields); err != nil && !strings.Contains(err.Error(), `"for"`) {
		t.Fatal(err)
	}
	tests := string(read(t, "monitoring", "rules.test.yaml"))
	runbook := anchors(read(t, "docs", "operations.md"))
	var all []expression
	seen := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "PhaseGPU") {
				t.Errorf("alert %q", r.Alert)
			}
			seen[r.Alert] = true
			if s := r.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			page, section, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if page != "https://github.com/phasegpu/phasegpu/blob/main/docs/operations.md" ||
				section != strings.ToLower(r.Alert) || !runbook[section] {
				t.Errorf("%s: docs/operations.md has no section for it, or it is not linked: %s", r.Alert,
					r.Annotations["runbook_url"])
			}
			if !strings.Contains(tests, `"`+r.Alert+`"`) && !strings.Contains(tests, "alertname: "+r.Alert+"\n") {
				t.Errorf("%s: rules.test.yaml does not say when it fires", r.Alert)
			}
			all = append(all, expression{r.Alert, r.Expr,
				words(r.Annotations["summary"], r.Annotations["description"])})
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, section := range regexp.MustCompile(`(?m)^### (PhaseGPU\w+)$`).FindAllSubmatch(read(t, "docs",
		"operations.md"), -1) {
		if !seen[string(section[1])] {
			t.Errorf("docs/operations.md has a section on %s, and there is no such alert", section[1])
		}
	}
	newKnown(t).check(t, all)
}

// What scrape.yaml looks for is what the manifests have.
func TestScrape(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	namespaces := regexp.MustCompile(`names: \[(.*)\]`).FindSubmatch(read(t, "monitoring", "scrape.yaml"))
	if len(namespaces) != 2 {
		t.Fatal("no namespaces are looked through")
	}
	scraped := string(namespaces[1])
	for _, b := range binaries() {
		files, err := filepath.Glob(filepath.Join(root, b.module, "manifests", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			workload := regexp.MustCompile(`(?m)^kind: (Deployment|DaemonSet)$`).Match(text)
			namespace := regexp.MustCompile(`(?m)^  namespace: (.*)$`).FindSubmatch(text)
			if workload && len(namespace) == 2 && strings.Contains(scraped, string(namespace[1])) &&
				bytes.Contains(text, []byte("- name: metrics\n")) &&
				regexp.MustCompile(`(?m)^        app.kubernetes.io/name: phasegpu-`).Match(text) {
				found = true
			}
		}
		if !found {
			t.Errorf("%s: no workload in %s with a port named metrics and the label that scrape.yaml keeps", b.module,
				scraped)
		}
	}
}
