package signals

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

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
		ID          int
		Type, Title string
		Datasource  *source
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
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
					t.Fatalf("panel %q lies on %q, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q lacks its query or data source", p.Title)
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
	if d.UID == "" || d.SchemaVersion == 0 {
		t.Errorf("%q, schema %d", d.UID, d.SchemaVersion)
	}
	k.check(t, all)
	for _, f := range k.families {
		if strings.HasPrefix(f.Name, "phasegpu_") && !shown[f.Name] {
			t.Errorf("the dashboard does not show %s", f.Name)
		}
	}
}
