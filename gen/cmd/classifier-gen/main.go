// Command classifier-gen writes what follows from the declarations of device families: typed
// classifiers and blocks of text in manifests and pages. See package classifiergen.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/phasegpu/phasegpu/gen/classifiergen"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "classifier-gen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("classifier-gen", flag.ContinueOnError)
	var a classifiergen.Args
	flags.StringVar(&a.Families, "families", "", "package that declares the families, e.g. ./gen/families")
	flags.StringVar(&a.Out, "out", "", "directory of the package to write, e.g. ./gen/classify")
	flags.Usage = func() {
		const usage = "usage: classifier-gen --families PACKAGE --out DIR [FILE with generated blocks…]"
		fmt.Fprintln(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	a.Blocks = flags.Args()
	return classifiergen.Run(a)
}
