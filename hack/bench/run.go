package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// packages lists the directories of this repository that have benchmarks, but for the end-to-end ones, which
// start a cluster.
func packages(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (name == "e2e" || name == "hack" || name == "bin" || name == "testdata" || name[0] == '.') {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if dir := filepath.Dir(path); bytes.Contains(text, []byte("\nfunc Benchmark")) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return err
	})
	return dirs, err
}

// runAll runs the benchmarks and keeps what they print, below lines that say how it was made.
func runAll(o options, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	kept, err := os.Create(path)
	if err != nil {
		return err
	}
	defer kept.Close()
	commit := "unknown"
	if text, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(text))
	}
	fmt.Fprintf(kept, "date: %s\ncommit: %s\ngo: %s\nprocessors: %d\nbenchtime: %s\ncount: %s\n",
		time.Now().UTC().Format(time.RFC3339), commit, runtime.Version(), runtime.NumCPU(), o.benchtime, o.count)
	flags := []string{"-test.bench=" + o.bench, "-test.benchtime=" + o.benchtime, "-test.count=" + o.count}
	start := time.Now()
	return benchmarks(flags, nil, func(line string) {
		fmt.Fprintln(kept, line)
		if name, rest, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "Benchmark") {
			fmt.Fprintf(os.Stderr, "%4.0fs  %s %s\n", time.Since(start).Seconds(), name, strings.Join(strings.Fields(rest), " "))
		}
	})
}

// complaint reports whether a line of output says what went wrong, and is none of a benchmark that went well.
func complaint(line string) bool {
	key, _, fact := strings.Cut(line, ": ")
	return line != "" && line != "PASS" && !strings.HasPrefix(line, "Benchmark") && (!fact || strings.Contains(key, " "))
}

// benchmarks builds and runs the benchmarks of one package after the other and tells each line that they print.
// environment is for the benchmarks, not for the compiler.
func benchmarks(flags, environment []string, tell func(line string)) error {
	dirs, err := packages(".")
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "phasegpu-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var failed error
	for i, dir := range dirs {
		binary := filepath.Join(tmp, fmt.Sprint(i, ".test"))
		build := exec.Command("go", "test", "-c", "-o", binary, "./"+dir)
		if text, err := build.CombinedOutput(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s does not build: %w\n%s", dir, err, text))
			continue
		}
		cmd := exec.Command(binary, append([]string{"-test.run=^$", "-test.benchmem", "-test.timeout=0"}, flags...)...)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), environment...), os.Stderr
		if err := lines(cmd, tell); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return failed
}

// lines runs a command and tells each line of its standard output.
func lines(cmd *exec.Cmd, tell func(line string)) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewScanner(out)
	for in.Scan() {
		if tell(in.Text()); complaint(in.Text()) {
			fmt.Fprintln(os.Stderr, in.Text())
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line too long must not block the command
	return errors.Join(in.Err(), cmd.Wait())
}
