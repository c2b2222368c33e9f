package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// decodeJSON reads the JSON list. It looks at the text itself because encoding/json takes "ID" for "id" and the
// last of two equal keys for the truth, and token by token it takes a third of a second to read the inventories
// of 5,000 nodes when the extender starts.
func decodeJSON(text string, blockMiB int64) ([]device.Device, error) {
	if data := []byte(text); !json.Valid(data) {
		return nil, broken(data)
	}
	var devices []device.Device
	for entry := range elements(text) {
		place := len(devices)
		if place == maxDevices {
			return nil, fmt.Errorf("there are more than %d devices", maxDevices)
		}
		r, err := decodeObject(entry)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", place, err)
		}
		d, err := r.device(blockMiB)
		if err != nil {
			return nil, fmt.Errorf("device %d, %s: %w", place, quote(r.id), err)
		}
		d.UUID, d.Model = strings.Clone(d.UUID), strings.Clone(d.Model) // they shall not keep the whole text
		devices = append(devices, d)
	}
	return devices, nil
}

// decodeObject reads one device of the list. Missing fields and null are zero, false or empty.
func decodeObject(object string) (record, error) {
	r := record{count: "0", devmem: "0", devcore: "0", numa: "0", health: "false", index: "0"}
	if object[0] != '{' {
		return r, fmt.Errorf("want an object, found %s", quote(object))
	}
	seen := make([]string, 0, 9)
	key := ""
	for part := range elements(object) {
		if key == "" {
			key = part
			continue
		}
		name, value := unquote(key), part
		key = ""
		field := r.field(name)
		if field == nil {
			continue
		}
		if slices.Contains(seen, name) {
			return r, fmt.Errorf("%q is given twice", name)
		}
		seen = append(seen, name)
		switch {
		case value == "null":
		case name != "id" && name != "type" && name != "mode":
			*field = value // numbers and booleans are checked as text, exactly as they were written
		case value[0] == '"':
			*field = unquote(value)
		default:
			return r, fmt.Errorf("%q is no string: %s", name, quote(value))
		}
	}
	return r, nil
}

// field returns where a field of the JSON format is kept, nil for an unknown one.
func (r *record) field(name string) *string {
	switch name {
	case "id":
		return &r.id
	case "count":
		return &r.count
	case "devmem":
		return &r.devmem
	case "devcore":
		return &r.devcore
	case "type":
		return &r.model
	case "numa":
		return &r.numa
	case "health":
		return &r.health
	case "index":
		return &r.index
	case "mode":
		return &r.mode
	default:
		return nil
	}
}

// elements yields the texts of the values in a JSON list, or of the keys and values in turn in an object. The text
// is valid JSON.
func elements(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		depth, start := 0, 1
		for i := 0; i < len(text); i++ {
			switch c := text[i]; c {
			case '"':
				for i++; text[i] != '"'; i++ {
					if text[i] == '\\' {
						i++
					}
				}
			case '[', '{':
				depth++
			case ',', ':', ']', '}':
				if depth == 1 {
					if element := strings.TrimSpace(text[start:i]); element != "" && !yield(element) {
						return
					}
					start = i + 1
				}
				if c == ']' || c == '}' {
					depth--
				}
			}
		}
	}
}

// unquote returns the string that valid JSON writes.
func unquote(text string) string {
	if !strings.Contains(text, `\`) {
		return text[1 : len(text)-1]
	}
	var s string
	_ = json.Unmarshal([]byte(text), &s) // valid JSON of a string cannot fail
	return s
}

// broken says where the text stops being a JSON list.
func broken(data []byte) error {
	err := json.Unmarshal(data, new(json.RawMessage))
	at := int64(len(data))
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	return fmt.Errorf("not JSON at byte %d: %w", at, err)
}

// inventoryEntry is a device in the JSON list, its fields in the order in which they are written.
type inventoryEntry struct {
	ID      string `json:"id"`
	Index   int    `json:"index"`
	Count   int64  `json:"count"`
	Devmem  int64  `json:"devmem"`
	Devcore int64  `json:"devcore"`
	Type    string `json:"type"`
	NUMA    int    `json:"numa"`
	Mode    string `json:"mode"`
	Health  bool   `json:"health"`
}

// EncodeInventory writes devices as the JSON list, memory in MiB, sorted by index, then UUID: byte for
// byte the same for equal devices, whatever their order. What DecodeInventory would refuse is an error.
func EncodeInventory(devices []device.Device) (string, error) {
	devices = slices.Clone(devices)
	if err := sortDevices(devices); err != nil {
		return "", fmt.Errorf("inventory: %w", err)
	}
	entries := make([]inventoryEntry, len(devices))
	for i, d := range devices {
		devices[i].Family, devices[i].Cordoned = "", false // told elsewhere
		entries[i] = inventoryEntry{
			ID: d.UUID, Index: d.Index, Count: d.Capacity.Slots, Devmem: d.Capacity.MemoryMiB,
			Devcore: d.Capacity.Cores, Type: d.Model, NUMA: d.NUMA, Mode: d.Mode.String(), Health: d.Healthy,
		}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return "", fmt.Errorf("inventory: %w", err)
	}
	// Read back, so that there is one set of rules for what an inventory may say.
	back, err := DecodeInventory("", string(text), 1)
	if err != nil {
		return "", err
	}
	for i := range back {
		if back[i] != devices[i] {
			return "", fmt.Errorf("inventory: device %s has a model or mode that cannot be written: %+v",
				back[i].UUID, devices[i])
		}
	}
	return string(text), nil
}
