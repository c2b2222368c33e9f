package docs

import (
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	page     string
	line     int // of its fence, from 1
	language string
	text     string // without the fence's indentation
}

var opening = regexp.MustCompile("^([ \t]*)```([A-Za-z]*)$")

// blocksOf returns the fenced blocks of a page.
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	var all []block
	var open *block
	var indent string
	for i, line := range strings.Split(string(read(t, page)), "\n") {
		match := opening.FindStringSubmatch(line)
		switch {
		case open == nil && match != nil:
			open, indent = &block{page: page, line: i + 1, language: match[2]}, match[1]
		case open == nil:
			if strings.Contains(line, "```") {
				t.Errorf("%s:%d: %q opens no block that can be read", page, i+1, line)
			}
		case match != nil && match[2] == "":
			all = append(all, *open)
			open = nil
		default:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return all
}

// Commands are in blocks that say so, so that none goes untried.
func TestBlocksSayWhatTheyAre(t *testing.T) {
	command := regexp.MustCompile(`(?m)^\s*\$ |^\s*(kubectl|make|helm|docker|openssl|curl|go|sudo|apt-get|git) [a-z-]`)
	for _, page := range pages(t) {
		for _, b := range blocksOf(t, page) {
			switch b.language {
			case "sh", "console", "yaml", "json":
			case "":
				if found := command.FindString(b.text); found != "" {
					t.Errorf("%s:%d: %q in a block that is not sh", b.page, b.line, found)
				}
			default:
				t.Errorf("%s:%d: blocks of %s are not checked: use sh, console, yaml, json or nothing", b.page, b.line,
					b.language)
			}
		}
	}
}
