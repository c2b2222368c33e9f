package classifiergen

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

var marker = regexp.MustCompile(`^([ \t]*).*\b(BEGIN|END) GENERATED ([A-Za-z0-9-]+)`)

// rewriteFiles renews the generated blocks of files, all or none: all files are checked before one is written.
func rewriteFiles(paths []string, blocks map[string][]string) error {
	renewed := make([][]byte, len(paths))
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if renewed[i], err = rewrite(text, blocks); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if bytes.Equal(text, renewed[i]) {
			renewed[i] = nil
		}
	}
	for i, path := range paths {
		if renewed[i] == nil {
			continue
		}
		if err := os.WriteFile(path, renewed[i], 0o644); err != nil { // an existing file keeps its mode
			return err
		}
	}
	return nil
}

// rewrite returns text with its generated blocks renewed. Text without any is an error, since it was named to have
// some.
func rewrite(text []byte, blocks map[string][]string) ([]byte, error) {
	var out []string
	var open string // name of the block that we are in
	found := false
	for i, line := range strings.Split(string(text), "\n") {
		m := marker.FindStringSubmatch(line)
		switch {
		case m == nil && open == "":
			out = append(out, line)
		case m == nil: // replaced
		case m[2] == "BEGIN" && open != "":
			return nil, fmt.Errorf("line %d: BEGIN GENERATED %s within %s: end that first", i+1, m[3], open)
		case m[2] == "BEGIN":
			lines, ok := blocks[m[3]]
			if !ok {
				return nil, fmt.Errorf("line %d: block %q is unknown: use one of %s", i+1, m[3], names(blocks))
			}
			open, found = m[3], true
			out = append(out, line)
			for _, l := range lines {
				if l != "" {
					l = m[1] + l
				}
				out = append(out, l)
			}
		case open != m[3]:
			return nil, fmt.Errorf("line %d: END GENERATED %s without its BEGIN", i+1, m[3])
		default:
			open = ""
			out = append(out, line)
		}
	}
	if open != "" {
		return nil, fmt.Errorf("BEGIN GENERATED %s without its END", open)
	}
	if !found {
		return nil, fmt.Errorf("no line says BEGIN GENERATED and one of %s: add the markers or take the file off "+
			"the command line", names(blocks))
	}
	return []byte(strings.Join(out, "\n")), nil
}

func names(blocks map[string][]string) string {
	return strings.Join(slices.Sorted(maps.Keys(blocks)), ", ")
}
