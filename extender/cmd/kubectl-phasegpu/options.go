package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/extender/internal/input"
	"github.com/phasegpu/phasegpu/extender/internal/render"
)

// options are the flags that the commands share.
type options struct {
	*pflag.FlagSet
	files      []string
	output     string
	release    string
	namespace  string
	kubeconfig string
	context    string
	ascii      bool
}

func newOptions(command, usage string, s streams) *options {
	o := &options{FlagSet: pflag.NewFlagSet(command, pflag.ContinueOnError), release: phase.PerInit.String()}
	o.SortFlags = false
	o.SetOutput(s.out)
	o.Usage = func() {
		fmt.Fprintf(s.out, "%s\nFlags:\n%s", usage, o.FlagUsages())
	}
	o.StringVarP(&o.output, "output", "o", "text", "`format`: text or json")
	o.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of the kubeconfig")
	o.StringVar(&o.context, "context", "", "kubeconfig `context`")
	o.BoolVar(&o.ascii, "ascii", false, "draw with ASCII only")
	return o
}

// readsFiles adds the flag of manifests.
func (o *options) readsFiles() {
	o.StringArrayVarP(&o.files, "filename", "f", nil, "manifest `file`, directory, or - for standard input; may be repeated")
}

// readsPods adds the flags of commands about pods.
func (o *options) readsPods() {
	o.StringVar(&o.release, "release", o.release, "release `policy` of pods without the annotation: per-init, all-inits or hold")
	o.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of objects that name none")
}

// parse reads the command line and checks what all commands check. files are further lists of files.
func (o *options) parse(args []string, s *streams, files ...*[]string) (phase.Release, error) {
	if err := o.Parse(args); err != nil {
		return 0, err
	}
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
