package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/phasegpu/phasegpu/e2e/process"
)

// simulation is the process that measures: its kubelets and the client that creates pods.
const simulation = "kubelets and client"

// meter is what the processes have used at some moment.
type meter struct {
	pids  map[string]int
	cpu   map[string]float64 // seconds
	began time.Time
	err   error
}

// meter begins to measure the processes that run.
func (b *bench) meter() *meter {
	m := &meter{pids: map[string]int{simulation: os.Getpid()}, cpu: map[string]float64{}}
	for _, p := range []*process.Process{b.Etcd, b.APIServer, b.Scheduler, b.Extender} {
		if p.Running() {
			m.pids[p.Name] = p.PID()
		}
	}
	for name, pid := range m.pids {
		seconds, err := cpuSeconds(pid)
		if err != nil {
			m.err = fmt.Errorf("%s: %w", name, err)
		}
		m.cpu[name] = seconds
	}
	m.began = time.Now()
	return m
}

// read returns what they have used since.
func (m *meter) read() (Load, error) {
	l := Load{CPU: map[string]float64{}, Resident: map[string]int64{}, Took: time.Since(m.began)}
	for name, pid := range m.pids {
		seconds, err := cpuSeconds(pid)
		if err != nil {
			return l, fmt.Errorf("%s: %w", name, err)
		}
		if l.Resident[name], err = residentBytes(pid); err != nil {
			return l, fmt.Errorf("%s: %w", name, err)
		}
		l.CPU[name] = seconds - m.cpu[name]
	}
	return l, m.err
}

// cpuSeconds reads the processor time of a process, in user and system mode. Linux counts it in hundredths.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have blanks. Fields 14 and 15 of all are the twelfth and thirteenth after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	user, userErr := strconv.ParseInt(fields[11], 10, 64)
	system, systemErr := strconv.ParseInt(fields[12], 10, 64)
	if userErr != nil || systemErr != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	return float64(user+system) / 100, nil
}

// residentBytes reads how much memory a process has.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
