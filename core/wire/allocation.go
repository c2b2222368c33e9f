package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// EncodeAllocation writes the entries of one family: "UUID,TYPE,MiB,cores:" per device and ";" after
// each container in position order, so a container without a device of that family is an empty entry.
func EncodeAllocation(family string, a device.Allocation) string {
	var text []byte
	for _, shares := range a {
		for _, s := range shares {
			if s.Family != family {
				continue
			}
			text = append(text, s.UUID...)
			text = append(text, ',')
			text = append(text, s.Family...)
			text = append(text, ',')
			text = strconv.AppendInt(text, s.Amount.MemoryMiB, 10)
			text = append(text, ',')
			text = strconv.AppendInt(text, s.Amount.Cores, 10)
			text = append(text, ':')
		}
		text = append(text, ';')
	}
	return string(text)
}

// DecodeAllocation reads what EncodeAllocation wrote for a pod of the given number of containers;
// blanks around the whole text are dropped. The result has exactly that many entries. It is an error
// when the text has another number of entries, a share that is not UUID,TYPE,MiB,cores with TYPE the
// family's type word, a device twice in one container, or a number out of range (memory 0 to
// device.MaxMemoryMiB, cores 0 to 100).
func DecodeAllocation(family, text string, containers int) (device.Allocation, error) {
	if err := checkText(text); err != nil {
		return nil, fmt.Errorf("allocation: %w", err)
	}
	text = strings.TrimSpace(text)
	if text != "" && !strings.HasSuffix(text, ";") {
		return nil, fmt.Errorf("allocation ends in %s: every container's entry ends in %q, so it was cut short",
			quote(text[strings.LastIndexByte(text, ';')+1:]), ";")
	}
	if n := strings.Count(text, ";"); n != containers {
		return nil, fmt.Errorf("allocation has entries for %d containers, the pod has %d", n, containers)
	}
	n := strings.Count(text, ":")
	if n > maxShares {
		return nil, fmt.Errorf("allocation lists %d devices, more than %d", n, maxShares)
	}
	a := make(device.Allocation, containers)
	room := make([]device.Share, 0, n) // of all containers, one after the other
	for position := range a {
		entry, rest, _ := strings.Cut(text, ";")
		text = rest
		shares, err := decodeShares(family, entry, room)
		if err != nil {
			return nil, fmt.Errorf("allocation of container %d: %w", position, err)
		}
		if len(shares) > 0 {
			a[position] = slices.Clip(shares)
			room = shares[len(shares):]
		}
	}
	return a, nil
}

// decodeShares reads the entry of one container into shares, which are empty and have room for them.
func decodeShares(family, entry string, shares []device.Share) ([]device.Share, error) {
	for entry != "" {
		text, rest, closed := strings.Cut(entry, ":")
		if !closed {
			return nil, fmt.Errorf("%s does not end in %q, so it was cut short", quote(text), ":")
		}
		entry = rest
		s, err := decodeShare(family, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quote(text), err)
		}
		for i := range shares {
			if shares[i].UUID == s.UUID {
				return nil, fmt.Errorf("%s: device %s is listed twice", quote(text), s.UUID)
			}
		}
		shares = append(shares, s)
	}
	return shares, nil
}

// decodeShare reads "UUID,TYPE,MiB,cores".
func decodeShare(family, text string) (device.Share, error) {
	uuid, rest, _ := strings.Cut(text, ",")
	word, rest, _ := strings.Cut(rest, ",")
	memory, cores, complete := strings.Cut(rest, ",")
	if !complete {
		return device.Share{}, fmt.Errorf("want UUID,%s,MiB,cores", family)
	}
	if err := checkID("UUID", uuid); err != nil {
		return device.Share{}, err
	}
	if word != family {
		return device.Share{}, fmt.Errorf("type %s, want %s", quote(word), family)
	}
	s := device.Share{UUID: uuid, Family: family, Amount: device.Amount{Slots: 1}}
	var err error
	if s.Amount.MemoryMiB, err = number("MiB", memory, 0, device.MaxMemoryMiB); err != nil {
		return device.Share{}, err
	}
	if s.Amount.Cores, err = number("cores", cores, 0, device.WholeCores); err != nil {
		return device.Share{}, err
	}
	return s, nil
}
