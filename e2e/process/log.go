package process

import (
	"io"
	"os"
	"strings"
)

// tailBytes is how much of a log an error shows.
const tailBytes = 4096

// tail reads the end of what a run wrote.
func (p *Process) tail(r *run) string {
	f, err := os.Open(p.Log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(r.offset, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return err.Error()
	}
	if from > r.offset { // cut at a line
		_, rest, ok := strings.Cut(string(text), "\n")
		if ok {
			return "…\n" + rest
		}
	}
	return string(text)
}

func saysAddressInUse(text string) bool { return strings.Contains(text, "address already in use") }
