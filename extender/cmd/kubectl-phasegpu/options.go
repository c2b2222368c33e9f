package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/input"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
)

// options are the flags that the commands share.
type options struct {
	*pflag.FlagSet
	command    *cobra.Command
	files      []string
	output     string
	release    string
	namespace  string
	kubeconfig string
	context    string
	ascii      bool
}

func newOptions(use, short, usage string) *options {
	o := &options{command: &cobra.Command{Use: use, Short: short, Long: usage}, release: phase.PerInit.String()}
	o.FlagSet = o.command.Flags()
	o.SortFlags = false
	o.StringVarP(&o.output, "output", "o", "text", "`format`: text or json")
	o.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of the kubeconfig")
	o.StringVar(&o.context, "context", "", "kubeconfig `context`")
	o.BoolVar(&o.ascii, "ascii", false, "draw with ASCII only")
	o.complete("output", words("text", "json"))
	o.complete("context", o.contexts)
	return o
}

// runs makes the command do something and return its exit code.
func (o *options) runs(s streams, do func(context.Context, streams) (int, error)) *cobra.Command {
	o.command.RunE = func(c *cobra.Command, _ []string) error {
		code, err := do(c.Context(), s)
		if err == nil && code != exitFine {
			return exit(code)
		}
		return err
	}
	return o.command
}

// readsFiles adds the flag of manifests.
func (o *options) readsFiles() {
	o.StringArrayVarP(&o.files, "filename", "f", nil, "manifest `file`, directory, or - for standard input; may be repeated")
}

// readsPods adds the flags of commands about pods.
func (o *options) readsPods() {
	o.StringVar(&o.release, "release", o.release, "release `policy` of pods without the annotation: per-init, all-inits or hold")
	o.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of objects that name none")
	o.complete("release", words(phase.PerInit.String(), phase.AllInits.String(), phase.Hold.String()))
	o.complete("namespace", o.namespaces)
}

// check checks what all commands check. files are further lists of files.
func (o *options) check(s *streams, files ...*[]string) (phase.Release, error) {
	stdin := 0
	for _, list := range append(files, &o.files) {
		for _, name := range *list {
			if name == "-" {
				stdin++
			}
		}
	}
	if stdin > 1 {
		return 0, errors.New("standard input (-) can be read only once")
	}
	s.screen.ASCII = s.screen.ASCII || o.ascii
	if o.output != "text" && o.output != "json" {
		return 0, fmt.Errorf("-o %s is unknown: use text or json", o.output)
	}
	release, err := phase.ParseRelease(o.release)
	if err != nil {
		return 0, fmt.Errorf("--release: %w", err)
	}
	return release, nil
}

// read adds the objects of files to a set.
func (o *options) read(set *input.Set, files []string, namespace string, in io.Reader) error {
	for _, name := range files {
		if name == "-" {
			set.Read(in, "standard input", namespace)
			continue
		}
		paths := []string{name}
		if stat, err := os.Stat(name); err == nil && stat.IsDir() {
			if paths, err = manifests(name); err != nil {
				return err
			}
		}
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			set.Read(file, path, namespace)
			file.Close()
		}
	}
	return nil
}

// objects reads the files of a command that can be about objects in files.
func (o *options) objects(s streams) (*input.Set, error) {
	var set input.Set
	if err := o.read(&set, o.files, o.fileNamespace(), s.in); err != nil {
		return nil, err
	}
	report(s.err, set.Problems)
	if set.Failed() {
		return nil, errors.New("nothing is told from objects of which some cannot be read")
	}
	return &set, nil
}

// find finds a pod among objects, by its name and the namespace asked for.
func (o *options) find(set *input.Set, name string) (*corev1.Pod, error) {
	for _, p := range set.Pods {
		if p.Kind == "Pod" && p.Namespace == o.fileNamespace() && p.Name == name {
			return p.Pod, nil
		}
	}
	return nil, fmt.Errorf("pod %s/%s is in none of the files (-n gives its namespace)", o.fileNamespace(), name)
}

// errOffline says what to do without a cluster.
func errOffline(err error) error { return fmt.Errorf("%w (offline, give -f FILE)", err) }

// manifests lists the manifests in a directory, not in those below it.
func manifests(directory string) ([]string, error) {
	var paths []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		found, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file is in this directory", directory)
	}
	slices.Sort(paths)
	return paths, nil
}

// report writes problems to standard error, in the order of the input.
func report(w io.Writer, problems []input.Problem) {
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
		fmt.Fprintln(w, render.Clean(word+strings.ReplaceAll(p.Error(), "\n", "; ")))
	}
}

// write writes a result: as JSON when that was asked for, else by text.
func (o *options) write(s streams, result any, text func() error) error {
	if o.output == "json" {
		text = func() error { return writeJSON(s.out, result) }
	}
	if err := text(); err != nil {
		return fmt.Errorf("output cannot be written: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
