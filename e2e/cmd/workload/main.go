// Command workload is what the containers of tests and samples run instead of programs that use a GPU.
//
//	workload STEP...
//
// takes its steps one by one and then exits 0. A step is one of
//
//	env            print the environment as a line of JSON, {"NAME":"value",…}
//	env=FILE       the same, and into FILE as well, whole or not at all
//	touch=FILE     make FILE, empty, if it is not there
//	until=FILE     wait until FILE is there
//	sleep=TIME     wait, for 500ms or 20s
//	stay           wait for good
//	exit=CODE      exit with CODE, 0 to 255
//	end=PREFIX     wait until a file PREFIX.CODE is there, and exit with CODE
//
// SIGTERM ends it at once with 143, also as the first process of a container, so that it never counts as
// complete when it was only stopped. A step that fails ends it with 1, one that cannot be read with 2,
// before any is taken. In the image phasegpu-workload it is /usr/bin/workload and the entry point:
//
//	args: [env, until=/control/go]        # an init container that ends when a test says so, by
//	                                      # kubectl exec POD -c INIT -- workload touch=/control/go
//	args: [env, end=/control/end]         # any container that ends with 3 after touch=/control/end.3
//	args: [sleep=300ms]                   # with restartPolicy Always: a sidecar in a crash loop through exit 0
//	args: [env, stay]                     # an app
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes. 143 is what a shell shows of a process that SIGTERM ended.
const (
	codeFailed  = 1
	codeUsage   = 2
	codeStopped = 128 + int(syscall.SIGTERM)
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(code(run(ctx, os.Args[1:], os.Environ(), os.Stdout), os.Stderr))
}

// run takes the steps and returns an exit if one of them asks for it.
func run(ctx context.Context, steps, environ []string, stdout io.Writer) error {
	parsed, err := parse(steps, environ, stdout)
	if err != nil {
		return err
	}
	for i, take := range parsed {
		if err := take(ctx); err != nil {
			return fmt.Errorf("%s: %w", steps[i], err)
		}
	}
	return nil
}

// code returns what the process exits with, and tells of what went wrong.
func code(err error, stderr io.Writer) int {
	var asked exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &asked):
		return int(asked)
	case errors.Is(err, context.Canceled):
		return codeStopped
	}
	fmt.Fprintln(stderr, "workload:", err)
	if errors.Is(err, errUsage) {
		return codeUsage
	}
	return codeFailed
}
