package docs

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/kube"
)

var update = flag.Bool("update", false, "rewrite what console blocks show")

// root is the checkout's.
var root = filepath.Join("..", "..")

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	must(t, err)
	return text
}

// The table of docs/concepts.md is computed from the sample, and that page and its picture have no figures but its own.
func TestConceptsFigures(t *testing.T) {
	e := worked(t)
	peak, steady := e.phases[0].reserved, e.phases[len(e.phases)-1].reserved
	known := map[int64]bool{
		cardMiB: true, e.sum: true, peak - steady: true,
		cardMiB - peak: true, cardMiB - steady: true, // free while it is reserved
	}
	for _, memory := range e.memory {
		known[memory] = true
	}
	text := read(t, "docs", "concepts.md")
	for _, p := range e.phases {
		known[p.uses], known[p.reserved] = true, true
		line := fmt.Sprintf("| %s | %d | %d | %d |", p.name, p.uses, p.reserved, cardMiB-p.reserved)
		if !bytes.Contains(text, []byte("\n"+line+"\n")) {
			t.Errorf("docs/concepts.md has no line %s", line)
		}
	}
	figure := regexp.MustCompile(`\b[0-9]{4,}\b`)
	for _, match := range append(figure.FindAll(text, -1), shownFigures(read(t, "docs", "phases.svg"), figure)...) {
		if n, err := strconv.ParseInt(string(match), 10, 64); err != nil || !known[n] {
			t.Errorf("docs/concepts.md or its picture has the figure %s, which kind/samples/serving.yaml does not give",
				match)
		}
	}
}

// shownFigures finds figures in the texts of a picture.
func shownFigures(picture []byte, figure *regexp.Regexp) (all [][]byte) {
	for _, text := range regexp.MustCompile(`<(?:text|desc)[^>]*>([^<]*)<`).FindAllSubmatch(picture, -1) {
		all = append(all, figure.FindAll(text[1], -1)...)
	}
	return all
}

// cardMiB is the memory of the card that the worked example shares.
const cardMiB = 24576

// example is a pod on one card, worked out: all memory in MiB.
type example struct {
	memory []int64 // by position
	sum    int64   // of all containers
	phases []examplePhase
}

type examplePhase struct {
	name     string
	uses     int64 // by the containers alive in it
	reserved int64 // while it and all after it remain
}

// worked works out the sample pod, whose containers all ask for MiB of one device.
func worked(t *testing.T) example {
	t.Helper()
	var d appsv1.Deployment
	must(t, yaml.UnmarshalStrict(bytes.TrimSpace(read(t, "kind", "samples", "serving.yaml")), &d))
	spec := &d.Spec.Template.Spec
	requests, err := kube.Requests(spec)
	must(t, err)
	var e example
	for position, r := range requests {
		if r.Devices != 1 || r.MemoryMiB == 0 {
			t.Fatalf("container %d asks for %+v, want MiB of one device", position, r)
		}
		e.memory = append(e.memory, r.MemoryMiB)
		e.sum += r.MemoryMiB
	}
	classes := kube.Classes(spec)
	for k := range classes.Len() {
		p := examplePhase{name: "steady"}
		if position := classes.InitPosition(k); position >= 0 {
			p.name = kube.Container(spec, position).Name
		}
		for position, memory := range e.memory {
			if classes.Alive(k, position) {
				p.uses += memory
			}
		}
		reserved, err := classes.Fold(k, func(position int) device.Amount {
			return device.Amount{MemoryMiB: e.memory[position]}
		})
		must(t, err)
		p.reserved = reserved.MemoryMiB
		e.phases = append(e.phases, p)
	}
	return e
}
