// Command testcount reads the output of `go test -json` on standard input, shows what one wants to see of
// it, and ends with an honest count of tests, each subtest once: "N passed, N failed, N skipped". It
// exits 1 when anything failed or nothing passed.
//
// Shown are one line per package, the tests that took long, and all output of tests that failed. Lines
// that are no JSON are passed on.
package main

import (
	"fmt"
	"os"
)

func main() {
	count, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
		count.failed++
	}
	fmt.Println(count)
	if count.failed > 0 || count.passed == 0 {
		os.Exit(1)
	}
}
