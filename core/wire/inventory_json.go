package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
)

// decodeJSON reads the JSON list. It goes token by token because encoding/json itself takes "ID" for
// "id" and the last of two equal keys for the truth.
func decodeJSON(text string, blockMiB int64) ([]device.Device, error) {
	in := json.NewDecoder(strings.NewReader(text))
	if err := expect(in, json.Delim('[')); err != nil {
		return nil, err
	}
	var devices []device.Device
	for place := 0; in.More(); place++ {
		if place == maxDevices {
			return nil, fmt.Errorf("there are more than %d devices", maxDevices)
		}
		r, err := decodeObject(in)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", place, err)
		}
		d, err := r.device(blockMiB)
		if err != nil {
			return nil, fmt.Errorf("device %d, %s: %w", place, quote(r.id), err)
		}
		devices = append(devices, d)
	}
	if err := expect(in, json.Delim(']')); err != nil {
		return nil, err
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is something after the end of the list, at byte %d", in.InputOffset())
	}
	return devices, nil
}

// decodeObject reads one device of the list. Missing fields and null are zero, false or empty.
func decodeObject(in *json.Decoder) (record, error) {
	r := record{count: "0", devmem: "0", devcore: "0", numa: "0", health: "false", index: "0"}
	if err := expect(in, json.Delim('{')); err != nil {
		return r, err
	}
	var seen []string
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return r, broken(in, err)
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return r, broken(in, err)
		}
		name := key.(string) // the decoder accepts nothing else as a key
		field := r.field(name)
		if field == nil {
			continue
		}
		if slices.Contains(seen, name) {
			return r, fmt.Errorf("%q is given twice", name)
		}
		seen = append(seen, name)
		switch text := string(value); name {
		case "id", "type", "mode":
			if err := json.Unmarshal(value, field); err != nil {
				return r, fmt.Errorf("%q is no string: %s", name, quote(text))
			}
		default:
			if text != "null" {
				*field = text // numbers and booleans are checked as text, exactly as they were written
			}
		}
	}
	return r, expect(in, json.Delim('}'))
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

// expect reads the next token and refuses any other.
func expect(in *json.Decoder, want json.Delim) error {
	got, err := in.Token()
	if err != nil {
		return broken(in, err)
	}
	if got != want {
		return fmt.Errorf("want %q, found %s", want, quote(fmt.Sprint(got)))
	}
	return nil
}

// broken says where the text stops being JSON.
func broken(in *json.Decoder, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("not JSON at byte %d: %w", in.InputOffset(), err)
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
			return "", fmt.Errorf("inventory: device %s has a model or mode that cannot be written: %+v", back[i].UUID, devices[i])
		}
	}
	return string(text), nil
}
