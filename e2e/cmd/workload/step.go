package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lookEvery is how often files are looked for: cheap for a hundred containers, and a test hardly waits.
const lookEvery = 50 * time.Millisecond

var errUsage = errors.New("not a step")

// An exit is the code that a step asks to exit with.
type exit int

func (e exit) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// A step does one thing; it ends early, with ctx's error, when ctx does.
type step func(ctx context.Context) error

const known = "env, touch=FILE, until=FILE, sleep=TIME, stay, exit=CODE or end=PREFIX"

func parse(args, environ []string, stdout io.Writer) ([]step, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: there is none: want %s", errUsage, known)
	}
	steps := make([]step, len(args))
	for i, arg := range args {
		s, err := parseStep(arg, environ, stdout)
		if err != nil {
			return nil, err
		}
		steps[i] = s
	}
	return steps, nil
}

func parseStep(arg string, environ []string, stdout io.Writer) (step, error) {
	verb, value, _ := strings.Cut(arg, "=")
	switch {
	case verb == "env":
		return func(context.Context) error { return printEnvironment(environ, stdout, value) }, nil
	case verb == "touch" && value != "":
		return func(context.Context) error { return touch(value) }, nil
	case verb == "until" && value != "":
		return func(ctx context.Context) error { return until(ctx, value) }, nil
	case verb == "sleep":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("%w: %q: want a time such as 500ms or 20s", errUsage, arg)
		}
		return func(ctx context.Context) error { return sleep(ctx, d) }, nil
	case arg == "stay":
		return func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil
	case verb == "exit":
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: want a code of 0 to 255", errUsage, arg)
		}
		return func(context.Context) error { return exit(n) }, nil
	case verb == "end" && value != "":
		return func(ctx context.Context) error { return end(ctx, value) }, nil
	}
	return nil, fmt.Errorf("%w: %q: want %s", errUsage, arg, known)
}

// printEnvironment writes a line of JSON to stdout and, if there is a path, into that file: at no moment
// is a part of it there.
func printEnvironment(environ []string, stdout io.Writer, path string) error {
	variables := make(map[string]string, len(environ))
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	line, err := json.Marshal(variables)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if path != "" {
		if err := os.WriteFile(path+".part", line, 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".part", path); err != nil {
			return err
		}
	}
	_, err = stdout.Write(line)
	return err
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func until(ctx context.Context, path string) error {
	return look(ctx, func() (bool, error) {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return true, err
	})
}

// end waits until a file named prefix, a dot and a code is there, and returns the exit with that code.
func end(ctx context.Context, prefix string) error {
	return look(ctx, func() (bool, error) {
		files, err := filepath.Glob(prefix + ".*")
		if err != nil || len(files) == 0 {
			return err != nil, err
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(files[0], prefix+"."), 10, 8)
		if err != nil {
			return true, fmt.Errorf("%s: want a code of 0 to 255 after %s", files[0], prefix)
		}
		return true, exit(n)
	})
}

// look calls found until it is true, and returns its error.
func look(ctx context.Context, found func() (bool, error)) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if done, err := found(); done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return nil
	}
}
