package signals

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/e2e/stack"
)

// read returns a file of the checkout.
func read(t *testing.T, path ...string) []byte {
	t.Helper()
	root, err := stack.Checkout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// known is what expressions may name: the binaries' metrics by the names under which Prometheus has them, and
// the labels that scrape.yaml puts on all of them.
type known struct {
	families map[string]family
	targets  []string
}

func newKnown(t *testing.T) known {
	t.Helper()
	k := known{families: map[string]family{}}
	for _, families := range metrics(t) {
		for _, f := range families {
			names := []string{f.Name}
			if f.Type == "histogram" {
				names = []string{f.Name + "_bucket", f.Name + "_count", f.Name + "_sum"}
			}
			for _, name := range names {
				k.families[name] = f
			}
		}
	}
	var scrape struct {
		ScrapeConfigs []struct {
			JobName        string `json:"job_name"`
			RelabelConfigs []struct {
				TargetLabel string `json:"target_label"`
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(read(t, "monitoring", "scrape.yaml"), &scrape); err != nil {
		t.Fatal(err)
	}
	k.targets = []string{"job", "instance"}
	for _, r := range scrape.ScrapeConfigs[0].RelabelConfigs {
		if r.TargetLabel != "" {
			k.targets = append(k.targets, r.TargetLabel)
		}
	}
	return k
}

// labels returns the labels of a metric.
func (k known) labels(metric string) []string {
	labels := slices.Concat(k.families[metric].Labels, k.targets)
	if strings.HasSuffix(metric, "_bucket") {
		labels = append(labels, "le")
	}
	return labels
}

// expression is one of a rule or a panel. Words are the labels that its texts name.
type expression struct {
	where, text string
	words       []string
}

// check holds what expressions name to what is known.
func (k known) check(t *testing.T, expressions []expression) {
	t.Helper()
	root, err := stack.Checkout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range expressions {
		texts = append(texts, e.text)
	}
	all, err := parsePromQL(t.Context(), root, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range expressions {
		var labels []string
		for _, s := range all[i].Selectors {
			f, ok := k.families[s.Metric]
			if !ok {
				t.Errorf("%s: no binary serves %q: %s", e.where, s.Metric, e.text)
				continue
			}
			has := k.labels(s.Metric)
			labels = append(labels, has...)
			for label, values := range s.Values {
				if !slices.Contains(has, label) {
					t.Errorf("%s: %s has no label %q: %s", e.where, s.Metric, label, e.text)
				}
				for _, value := range values {
					if f.Values[label] != nil && !objects[label] && !f.Values[label][value] {
						t.Errorf("%s: label %s of %s is never %q: %s", e.where, label, s.Metric, value, e.text)
					}
				}
			}
		}
		for _, label := range slices.Concat(all[i].Groups, e.words) {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: nothing there has a label %q: %s", e.where, label, e.text)
			}
		}
	}
}

type promQL struct {
	Selectors []struct {
		Metric string
		Values map[string][]string
	}
	Groups []string
}

// parsePromQL has hack/promql read expressions.
func parsePromQL(ctx context.Context, root string, texts []string) (all []promQL, err error) {
	in, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "run", ".")
	cmd.Dir = filepath.Join(root, "hack", "promql")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("hack/promql: %w: %s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(texts) {
		return nil, fmt.Errorf("hack/promql tells of %d of %d expressions: %w", len(all), len(texts), err)
	}
	return all, nil
}

// legend finds the labels that the legend of a panel, or the text of an alert, names.
var legend = regexp.MustCompile(`{{\s*(?:\$labels\.)?([a-z_]+)[^}]*}}`)

func words(texts ...string) (names []string) {
	for _, match := range legend.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		names = append(names, match[1])
	}
	return names
}

// anchor is what GitHub makes of a heading.
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

// Each alert is of metrics that there are, says what is the matter and what to do, and has been seen to fire.
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
	if err := yaml.UnmarshalStrict(read(t, "monitoring", "rules.yaml"), &rules, yaml.DisallowUnknownFields); err != nil && !strings.Contains(err.Error(), `"for"`) {
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
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s does not say what is the matter", r.Alert)
			}
			page, section, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if page != "https://github.com/phasegpu/phasegpu/blob/main/docs/operations.md" || section != strings.ToLower(r.Alert) || !runbook[section] {
				t.Errorf("%s: docs/operations.md has no section for it, or it is not linked: %s", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.Contains(tests, `"`+r.Alert+`"`) && !strings.Contains(tests, "alertname: "+r.Alert+"\n") {
				t.Errorf("%s: rules.test.yaml does not say when it fires", r.Alert)
			}
			all = append(all, expression{r.Alert, r.Expr, words(r.Annotations["summary"], r.Annotations["description"])})
		}
	}
	if len(all) < 15 {
		t.Fatalf("%d alerts were found", len(all))
	}
	newKnown(t).check(t, all)
}

// dashboard is as much of Grafana's model as can be wrong here.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type, Definition string
			Datasource             source
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               *source
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                source
		}
	}
}

type source struct{ Type, UID string }

// The dashboard loads, overlaps nowhere, shows metrics that there are, and by variables that there are.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal(read(t, "monitoring", "dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	k := newKnown(t)
	variables := map[string]bool{"__rate_interval": true}
	var all []expression
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if match := regexp.MustCompile(`^label_values\((.*), (.*)\)$`).FindStringSubmatch(v.Definition); match != nil {
			all = append(all, expression{"variable " + v.Name, match[1], []string{match[2]}})
		} else if v.Type != "datasource" {
			t.Errorf("variable %s is made of %q", v.Name, v.Definition)
		}
	}
	for _, name := range []string{"datasource", "node", "namespace"} {
		if !variables[name] {
			t.Errorf("there is no variable %s", name)
		}
	}
	used := regexp.MustCompile(`\$({?)([a-z_]+)}?`)
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	shown := map[string]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d, %q: its id or title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies on %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q lacks its description, unit, query or data source", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q asks data source %q", p.Title, target.Datasource.UID)
			}
			for _, match := range used.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[match[2]] {
					t.Errorf("panel %q: there is no variable %s", p.Title, match[2])
				}
			}
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			expr = used.ReplaceAllString(expr, ".*")
			all = append(all, expression{"panel " + p.Title, expr, words(target.LegendFormat)})
			for name, f := range k.families {
				if regexp.MustCompile(`\b` + name + `\b`).MatchString(expr) {
					shown[f.Name] = true
				}
			}
		}
	}
	if d.UID == "" || d.SchemaVersion == 0 || len(all) < 30 {
		t.Errorf("%q, schema %d, %d queries", d.UID, d.SchemaVersion, len(all))
	}
	k.check(t, all)
	for _, f := range k.families {
		if strings.HasPrefix(f.Name, "phasegpu_") && !shown[f.Name] {
			t.Errorf("the dashboard does not show %s", f.Name)
		}
	}
}

// What scrape.yaml looks for is what the manifests have.
func TestScrape(t *testing.T) {
	root, err := stack.Checkout(t.Context())
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
			if workload && len(namespace) == 2 && strings.Contains(scraped, string(namespace[1])) && bytes.Contains(text, []byte("- name: metrics\n")) && regexp.MustCompile(`(?m)^        app.kubernetes.io/name: phasegpu-`).Match(text) {
				found = true
			}
		}
		if !found {
			t.Errorf("%s: no workload in %s with a port named metrics and the label that scrape.yaml keeps", b.module, scraped)
		}
	}
}
