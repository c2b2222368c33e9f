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

	"github.com/phasegpu/phasegpu/e2e/checkout"
	"github.com/phasegpu/phasegpu/e2e/process"
)

// read returns a file of the checkout.
func read(t *testing.T, path ...string) []byte {
	t.Helper()
	root, err := checkout.Root()
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
	root, err := checkout.Root()
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
		for _, label := range all[i].Groups {
			if !slices.Contains(labels, label) {
				t.Errorf("%s: nothing there has a label %q: %s", e.where, label, e.text)
			}
		}
		for _, label := range e.words {
			if left := all[i].Groups; len(left) > 0 && !slices.Contains(left, label) ||
				!slices.Contains(labels, label) {
				t.Errorf("%s: its text names label %q, which is not left: %s", e.where, label, e.text)
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
	out, err := process.Output(cmd)
	if err != nil {
		return nil, fmt.Errorf("hack/promql: %w", err)
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != len(texts) {
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
