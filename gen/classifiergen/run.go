package classifiergen

import (
	"errors"
	"fmt"
	"path/filepath"

	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/namer"

	"github.com/phasegpu/phasegpu/gen/families"
)

// Args is what a run reads and writes. Paths are relative to the working directory.
type Args struct {
	Families string   // pattern of the package that declares the families, e.g. "./families"
	Out      string   // directory of the package to write
	Blocks   []string // files whose generated blocks are rewritten
}

// Run generates. When the declarations or a file's markers are wrong it writes nothing.
func Run(args Args) error {
	if args.Families == "" || args.Out == "" {
		return errors.New("the package of declarations and the output directory must be given")
	}
	out, err := filepath.Abs(args.Out)
	if err != nil {
		return err
	}
	var failed error
	targets := func(c *generator.Context) []generator.Target {
		all, err := inputs(c)
		if err != nil {
			failed = err
			return nil
		}
		values := make([]families.Family, len(all))
		for i := range all {
			values[i] = all[i].Family
		}
		if failed = rewriteFiles(args.Blocks, blocks(values)); failed != nil {
			return nil
		}
		return []generator.Target{target(out, all)}
	}
	names := namer.NameSystems{"raw": namer.NewRawNamer("", nil)}
	if err := gengo.Execute(names, "raw", targets, gengo.StdBuildTag, []string{args.Families}); err != nil {
		return err
	}
	return failed
}

// inputs returns the declarations of the one package that was asked for.
func inputs(c *generator.Context) ([]declaration, error) {
	if len(c.Inputs) != 1 {
		return nil, fmt.Errorf("the declarations must be one package, not %d", len(c.Inputs))
	}
	return declarations(c.Universe[c.Inputs[0]])
}
