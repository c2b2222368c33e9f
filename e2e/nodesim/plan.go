package nodesim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PlanAnnotation of a pod says how long its containers run and how they end; see the package documentation.
const PlanAnnotation = "nodesim.phasegpu.io/plan"

// run is how one run of a container goes.
type run struct {
	hold  bool // until Finish
	after time.Duration
	exit  int32
}

// plan is the runs of a pod's containers, by name; "*" is for those without an entry.
type plan map[string][]run

// parsePlan reads "name=run,run; name=run", a run being "hold" or an exit code, "@" and a duration.
func parsePlan(text string) (plan, error) {
	p := plan{}
	for entry := range strings.SplitSeq(text, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		name, list, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, fmt.Errorf("plan %q: %q is not CONTAINER=RUN,RUN…", text, entry)
		}
		name = strings.TrimSpace(name)
		for word := range strings.SplitSeq(list, ",") {
			r, err := parseRun(strings.TrimSpace(word))
			if err != nil {
				return nil, fmt.Errorf("plan %q: container %s: %w", text, name, err)
			}
			p[name] = append(p[name], r)
		}
	}
	return p, nil
}

func parseRun(word string) (run, error) {
	if word == "hold" {
		return run{hold: true}, nil
	}
	code, duration, timed := strings.Cut(word, "@")
	exit, err := strconv.ParseUint(code, 10, 8)
	if err != nil {
		return run{}, fmt.Errorf(`run %q is not "hold", an exit code from 0 to 255, or such a code, "@" and a duration`,
			word)
	}
	r := run{exit: int32(exit)}
	if timed {
		if r.after, err = time.ParseDuration(duration); err != nil {
			return run{}, fmt.Errorf("run %q: %w", word, err)
		}
	}
	return r, nil
}

// run returns how the n-th run (from 0) of a container goes. The last of a list repeats.
func (p plan) run(container string, n int) run {
	runs, ok := p[container]
	if !ok {
		runs = p["*"]
	}
	if len(runs) == 0 {
		return run{hold: true}
	}
	return runs[min(n, len(runs)-1)]
}
