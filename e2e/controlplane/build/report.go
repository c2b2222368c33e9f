package build

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// reportInterval is the time between two lines of progress.
const reportInterval = 10 * time.Second

// reporter reads what "go build -v" writes, a line per package compiled, and says now and then how far it is.
type reporter struct {
	out     io.Writer
	name    string
	started time.Time
	done    chan struct{}
	waiting sync.WaitGroup

	mu       sync.Mutex
	partial  []byte
	packages int
	last     string   // package
	other    []string // lines that name no package: errors and downloads
}

func report(out io.Writer, name string) *reporter {
	r := &reporter{out: out, name: name, started: time.Now(), done: make(chan struct{})}
	r.waiting.Go(func() {
		tick := time.NewTicker(reportInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.line("")
			case <-r.done:
				r.line(", finished")
				return
			}
		}
	})
	return r
}

// Write takes output of the go command.
func (r *reporter) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = append(r.partial, p...)
	for {
		line, rest, ok := bytes.Cut(r.partial, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		r.partial = rest
		text := string(line)
		if strings.ContainsAny(text, " :#\t") {
			r.other = append(r.other, text)
		} else {
			r.packages++
		}
		r.last = text
	}
}

func (r *reporter) line(suffix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("phasegpu: %s: %s, %d packages compiled", r.name, time.Since(r.started).Round(time.Second), r.packages)
	if r.last != "" && suffix == "" {
		text += ", last " + r.last
	}
	fmt.Fprintln(r.out, text+suffix)
}

// Close says that the build has ended.
func (r *reporter) Close() {
	close(r.done)
	r.waiting.Wait()
}

// Errors returns what the go command wrote besides names of packages.
func (r *reporter) Errors() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(append(r.other, string(r.partial)), "\n")
}
