// Command section puts what it reads on stdin into a section of a file, in place of what was there:
//
//	go run ./hack/section docs/benchmarks.md end-to-end < table.md
//
// A section begins after a line "<!-- BEGIN MEASURED name -->" and ends before "<!-- END MEASURED name -->".
// Nothing on stdin is an error and changes nothing: whatever should have written it has failed.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "section:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader) error {
	if len(args) != 2 {
		return errors.New("usage: section FILE NAME < TEXT")
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return fmt.Errorf("nothing on stdin for section %s of %s: see what the command before it said", args[1], args[0])
	}
	old, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	replaced, err := replace(string(old), args[1], string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[0], []byte(replaced), 0o644)
}

// replace returns a file with another text in one section.
func replace(file, name, text string) (string, error) {
	begin, end := "<!-- BEGIN MEASURED "+name+" -->\n", "<!-- END MEASURED "+name+" -->"
	before, rest, ok := strings.Cut(file, begin)
	if !ok {
		return "", fmt.Errorf("no line is %q: add it and its end where the section belongs", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("no line after %q is %q", strings.TrimSpace(begin), end)
	}
	return before + begin + "\n" + strings.TrimSpace(text) + "\n\n" + end + after, nil
}
