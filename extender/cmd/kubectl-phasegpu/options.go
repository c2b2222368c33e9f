package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// options are a command with the flags that commands share.
type options struct {
	session
	*pflag.FlagSet
	command   *cobra.Command
	files     []string
	recursive bool
	output    string
	release   string
	ascii     bool
}

func newOptions(s session, use, short, usage string) *options {
	o := &options{session: s, command: &cobra.Command{Use: use, Short: short, Long: usage}}
	o.FlagSet = o.command.Flags()
	o.SortFlags = false
	o.release = phase.PerInit.String()
	o.StringVarP(&o.output, "output", "o", "text", "`format`: text or json")
	o.BoolVar(&o.ascii, "ascii", false, "draw with ASCII only")
	complete(o.command, "output", words("text", "json"))
	manifests := genericclioptions.FileNameFlags{
		Usage:     "manifest `file`, directory, URL, or - for standard input; may be repeated",
		Filenames: &o.files, Recursive: &o.recursive,
	}
	manifests.AddFlags(o.FlagSet)
	return o
}

// runs makes the command do something and return its exit code.
func (o *options) runs(do func(context.Context) (int, error)) *cobra.Command {
	o.command.RunE = func(c *cobra.Command, _ []string) error {
		code, err := do(c.Context())
		if err == nil && code != exitFine {
			return exit(code)
		}
		return err
	}
	return o.command
}

// readsPods adds the flags of commands about pods.
func (o *options) readsPods() {
	o.takesRelease()
	o.StringVarP(o.config.Namespace, "namespace", "n", "", "`namespace` of objects that name none")
	complete(o.command, "namespace", o.namespaces)
}

func (o *options) takesRelease() {
	o.StringVar(&o.release, "release", o.release,
		"release `policy` of pods without the annotation: per-init, all-inits or hold")
	complete(o.command, "release", words(phase.PerInit.String(), phase.AllInits.String(), phase.Hold.String()))
}

// policyFlag adds a flag for the policy between nodes or devices of pods without the annotation.
func (o *options) policyFlag(between string) (parse func() (placement.Policy, error)) {
	name := between + "-policy"
	text := o.String(name, "binpack", "`policy` between "+between+"s of pods without the annotation: binpack or spread")
	return func() (placement.Policy, error) {
		policy, err := wire.ParsePolicy(*text)
		if err != nil {
			return policy, fmt.Errorf("--%s: %w", name, err)
		}
		return policy, nil
	}
}

// check checks the shared flags. more are further names of files.
func (o *options) check(more ...string) (phase.Release, error) {
	stdin := 0
	for _, name := range append(more, o.files...) {
		if name == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return 0, errors.New("standard input (-) can be read only once")
	}
	o.screen.ASCII = o.screen.ASCII || o.ascii
	if o.output != "text" && o.output != "json" {
		return 0, fmt.Errorf("-o %s is unknown: use text or json", o.output)
	}
	release, err := phase.ParseRelease(o.release)
	if err != nil {
		return 0, fmt.Errorf("--release: %w", err)
	}
	return release, nil
}

// read reads objects from files.
func (o *options) read(ctx context.Context, files []string, namespace string) (*input.Set, error) {
	var set input.Set
	for _, name := range files {
		if err := set.ReadFrom(ctx, name, o.recursive, o.In, namespace); err != nil {
			return nil, err
		}
	}
	return &set, nil
}

// fileNamespace is the namespace of objects in files that name none.
func (o *options) fileNamespace() string { return cmp.Or(*o.config.Namespace, metav1.NamespaceDefault) }

// writeProblems writes problems to standard error, in the order of the input.
func (s *session) writeProblems(problems []input.Problem) {
	files := map[string]int{}
	for _, p := range problems {
		if _, known := files[p.File]; !known {
			files[p.File] = len(files)
		}
	}
	slices.SortStableFunc(problems, func(x, y input.Problem) int {
		return cmp.Or(cmp.Compare(files[x.File], files[y.File]), cmp.Compare(x.Document, y.Document))
	})
	for _, p := range problems {
		word := "error: "
		if p.Warning {
			word = "warning: "
		}
		fmt.Fprintln(s.ErrOut, render.Clean(word+strings.ReplaceAll(p.Error(), "\n", "; ")))
	}
}

// texter is a result that can be drawn.
type texter interface {
	Text(io.Writer, render.Screen) error
}

// write writes a result, as JSON or as text. It returns exit code 1 for a negative one.
func (o *options) write(result texter, negative bool) (int, error) {
	var err error
	if o.output == "json" {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(result)
	} else {
		err = result.Text(o.Out, o.screen)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("output cannot be written: %w", err)
	case negative:
		return exitNegative, nil
	}
	return exitFine, nil
}
