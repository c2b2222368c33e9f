package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is where and when something was measured, in words.
type Machine struct {
	Command, Processor, Kernel, Commit string
	Processors                         int
	MemoryMiB                          int64
	Date                               time.Time
}

// ThisMachine describes the machine and the checkout. What it does not tell is "unknown".
func ThisMachine(command string) Machine {
	m := Machine{
		Command: command, Processor: field("/proc/cpuinfo", "model name"), Kernel: output("uname", "-sr"),
		Commit: output("git", "describe", "--always", "--dirty"), Processors: runtime.NumCPU(), Date: time.Now().UTC(),
	}
	kib, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil {
		m.MemoryMiB = n / 1024
	}
	return m
}

// String is a paragraph.
func (m Machine) String() string {
	return fmt.Sprintf("Measured with `%s` on %s at commit %s: %d processors (%s), %d MiB of memory, %s, %s.",
		m.Command, m.Date.Format("2006-01-02 15:04 MST"), m.Commit, m.Processors, m.Processor, m.MemoryMiB, m.Kernel,
		runtime.Version())
}

// field finds "name : value" in a file.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown"
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
