// Command promql reads a JSON list of PromQL expressions and writes what each of them names: the metrics that it
// selects with the labels that it compares them by, and the labels that it groups by. It ends with 1 at the first
// that Prometheus would not parse.
//
// It is a module of its own, outside go.work, so that what Prometheus' parser requires binds nobody else.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

// names is what an expression names.
type names struct {
	Selectors []selector
	Groups    []string // labels of by, without, on and ignoring
}

// selector is a metric and, for each label that it is compared by, the values it may have: none for those
// of a regular expression that is more than a list.
type selector struct {
	Metric string
	Values map[string][]string
}

func run(in io.Reader, out io.Writer) error {
	var expressions []string
	if err := json.NewDecoder(in).Decode(&expressions); err != nil {
		return err
	}
	all := make([]names, 0, len(expressions))
	for _, text := range expressions {
		one, err := read(text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		all = append(all, one)
	}
	return json.NewEncoder(out).Encode(all)
}

func read(text string) (names, error) {
	var n names
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return n, err
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch e := node.(type) {
		case *parser.VectorSelector:
			n.Selectors = append(n.Selectors, selected(e))
		case *parser.AggregateExpr:
			n.Groups = append(n.Groups, e.Grouping...)
		case *parser.BinaryExpr:
			if m := e.VectorMatching; m != nil {
				n.Groups = append(append(n.Groups, m.MatchingLabels...), m.Include...)
			}
		}
		return nil
	})
	return n, nil
}

func selected(e *parser.VectorSelector) selector {
	s := selector{Metric: e.Name, Values: map[string][]string{}}
	for _, m := range e.LabelMatchers {
		switch {
		case m.Name == labels.MetricName:
		case m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual:
			s.Values[m.Name] = []string{m.Value}
		case !strings.ContainsAny(m.Value, `.*+?()[]{}\^$`):
			s.Values[m.Name] = strings.Split(m.Value, "|")
		default:
			s.Values[m.Name] = nil
		}
	}
	return s
}
