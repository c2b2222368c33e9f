package wire

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/phasegpu/phasegpu/core/device"
)

// Bounds on what is read. Each is far above any real machine and low enough that no sum over a node or
// a pod can overflow, and that hostile text cannot make its reader slow.
const (
	maxText     = 256 << 10 // bytes; all annotations of an object together have no more
	maxIDLength = 253       // bytes of a device id or type word
	maxDevices  = 1024      // in an inventory
	maxShares   = 4096      // in an allocation
	maxReplicas = 1 << 20   // "count"
	maxCores    = 100 * 100 // "devcore", percent; above 100 where compute is oversubscribed
	maxIndex    = 1<<16 - 1
	maxNUMA     = 1<<16 - 1
	minNUMA     = -1 // Linux says so of a device on a machine without NUMA nodes
)

// number reads a whole decimal number in a range. Signs other than a minus that the range allows,
// fractions, exponents and blanks are refused: nothing is rounded or truncated into something valid.
func number(field, text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' {
		return 0, fmt.Errorf("%s %s is not a whole number from %d to %d", field, quote(text), least, most)
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%s %d is out of range: %d to %d", field, n, least, most)
	}
	return n, nil
}

// blocks reads an amount of memory in blocks and returns it in MiB.
func blocks(field, text string, blockMiB int64) (int64, error) {
	if blockMiB < 1 || blockMiB > device.MaxMemoryMiB {
		return 0, fmt.Errorf("a memory block of %d MiB is out of range: 1 to %d", blockMiB, device.MaxMemoryMiB)
	}
	n, err := number(field, text, 0, device.MaxMemoryMiB/blockMiB)
	return n * blockMiB, err
}

// checkID refuses ids that are no single word or that the separators of the formats would tear apart.
func checkID(what, id string) error {
	if id == "" {
		return fmt.Errorf("%s is missing", what)
	}
	if len(id) > maxIDLength {
		return fmt.Errorf("%s %s has %d bytes, more than %d", what, quote(id), len(id), maxIDLength)
	}
	for _, r := range id {
		if r == ',' || r == ':' || r == ';' || unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError {
			return fmt.Errorf("%s %s contains %q", what, quote(id), r)
		}
	}
	return nil
}

// checkText refuses text that cannot be an annotation.
func checkText(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("%d bytes are more than the %d that an annotation can have", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is not UTF-8", quote(text))
	}
	return nil
}

// quote shows a piece of somebody else's text in an error, without control characters and not all of
// it when it is long.
func quote(text string) string {
	const most = 64
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return strconv.Quote(text)
}
