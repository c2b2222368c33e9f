package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/phasegpu/phasegpu/core/device"
)

func card(uuid string, index int, memoryMiB int64) device.Device {
	return device.Device{
		UUID: uuid, Index: index, Family: "NVIDIA", Model: "NVIDIA A100",
		Capacity: device.Amount{Slots: 10, MemoryMiB: memoryMiB, Cores: 100}, Healthy: true,
	}
}

func TestDecodeInventory(t *testing.T) {
	onNUMA1 := card("G1", 1, 24576)
	onNUMA1.NUMA, onNUMA1.Mode = 1, device.MIG
	sick := card("G2", 2, 24576)
	sick.NUMA, sick.Healthy, sick.Mode = -1, false, device.MPS
	for _, c := range []struct {
		name, text string
		block      int64
		want       []device.Device
	}{
		{"JSON", `[{"id":"G0","index":0,"count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A100","numa":0,"mode":"hami-core","health":true},
			{"id":"G1","index":1,"count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A100","numa":1,"mode":"mig","health":true},
			{"id":"G2","index":2,"count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A100","numa":-1,"mode":"mps","health":false}]`,
			1, []device.Device{card("G0", 0, 24576), onNUMA1, sick}},
		{"JSON without zero and false fields", `[{"id":"G0"}]`, 1, []device.Device{{UUID: "G0", Family: "NVIDIA"}}},
		{"JSON with null fields", `[{"id":"G0","count":null,"mode":null,"health":null,"type":null}]`, 1,
			[]device.Device{{UUID: "G0", Family: "NVIDIA"}}},
		{"JSON with unknown fields", `[{"devicevendor":"NVIDIA","ID":"other","Health":true,"custominfo":{"a":[{}],"a":1},"id":"G0"}]`,
			1, []device.Device{{UUID: "G0", Family: "NVIDIA"}}},
		{"JSON with escapes", `[{"id":"\u00470","type":"a,b:c;\u00e9"}]`, 1,
			[]device.Device{{UUID: "G0", Family: "NVIDIA", Model: "a,b:c;é"}}},
		{"JSON without devices", " [ ] \n", 1, nil},
		{"sorted by index, then UUID", `[{"id":"B","index":1},{"id":"A","index":1},{"id":"C"}]`, 1,
			[]device.Device{{UUID: "C", Family: "NVIDIA"}, {UUID: "A", Index: 1, Family: "NVIDIA"},
				{UUID: "B", Index: 1, Family: "NVIDIA"}}},
		{"colons", "G0,10,24576,100,NVIDIA A100,0,true:", 1, []device.Device{card("G0", 0, 24576)}},
		{"colons with index and mode", "G2,10,24576,100,NVIDIA A100,-1,false,2,mps:G1,10,24576,100,NVIDIA A100,1,true,1,mig:",
			1, []device.Device{onNUMA1, sick}},
		{"colons without index: their place", "Z,10,24576,100,NVIDIA A100,0,true:A,10,24576,100,NVIDIA A100,0,true:",
			1, []device.Device{card("Z", 0, 24576), card("A", 1, 24576)}},
		{"blocks of 256 MiB", "G0,10,96,100,NVIDIA A100,0,true:", 256, []device.Device{card("G0", 0, 24576)}},
		{"largest memory in blocks", `[{"id":"G0","devmem":32768}]`, 256,
			[]device.Device{{UUID: "G0", Family: "NVIDIA", Capacity: device.Amount{MemoryMiB: device.MaxMemoryMiB}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeInventory("NVIDIA", c.text, c.block)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestInventoryRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "inventory is empty"},
		{"blank", " \n", "inventory is empty"},
		{"neither format", "null", `"null", does not end in ":"`},
		{"an object", `{"id":"G0"}`, "has 1 fields"},
		{"JSON cut short", `[{"id":"G0","count":10`, "not JSON at byte 22"},
		{"JSON cut after a device", `[{"id":"G0"}`, "not JSON at byte 12: unexpected end"},
		{"something behind the list", `[{"id":"G0"}] x`, "not JSON at byte 15: invalid character 'x' after"},
		{"a second list", `[][{"id":"G0"}]`, "not JSON at byte 3"},
		{"a list of strings", `["G0"]`, `device 0: want an object, found "\"G0\""`},
		{"a list of lists", `[["G0"]]`, `device 0: want an object, found "[\"G0\"]"`},
		{"deep nesting", `[{"id":"G0","x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}]`,
			"exceeded max depth"},
		{"deep nesting before the list", strings.Repeat("[", 100000), "exceeded max depth"},
		{"id missing", `[{"index":0},{"id":"G0"}]`, `device 0, "": id is missing`},
		{"id not a string", `[{"id":7}]`, `"id" is no string: "7"`},
		{"id with a separator", `[{"id":"G,0"}]`, `id "G,0" contains ','`},
		{"id with a control character", `[{"id":"G\u0000"}]`, `contains '\x00'`},
		{"id with half a surrogate", `[{"id":"G\ud800"}]`, `contains '�'`},
		{"id given twice in a device", `[{"id":"G0","id":"G1"}]`, `"id" is given twice`},
		{"number given twice", `[{"id":"G0","devmem":1,"devmem":2}]`, `"devmem" is given twice`},
		{"id of two devices", `[{"id":"G0"},{"id":"G1"},{"id":"G0"}]`, "device G0 is listed twice"},
		{"number as a string", `[{"id":"G0","devmem":"24576"}]`,
			`device 0, "G0": devmem "\"24576\"" is not a whole number`},
		{"fraction", `[{"id":"G0","devmem":1.5}]`, `devmem "1.5" is not`},
		{"exponent", `[{"id":"G0","devmem":1e3}]`, `devmem "1e3" is not`},
		{"NaN", `[{"id":"G0","devmem":NaN}]`, "not JSON"},
		{"negative memory", `[{"id":"G0","devmem":-1}]`, "devmem -1 is out of range: 0 to 8388608"},
		{"bytes as MiB", `[{"id":"G0","devmem":25769803776}]`, "devmem 25769803776 is out of range"},
		{"beyond 64 bits", `[{"id":"G0","devmem":18446744073709551617}]`, "is not a whole number"},
		{"count out of range", `[{"id":"G0","count":1048577}]`, "count 1048577 is out of range"},
		{"devcore out of range", `[{"id":"G0","devcore":10001}]`, "devcore 10001 is out of range"},
		{"index out of range", `[{"id":"G0","index":-1}]`, "index -1 is out of range"},
		{"numa out of range", `[{"id":"G0","numa":-2}]`, "numa -2 is out of range"},
		{"unknown mode", `[{"id":"G0","mode":"mig2"}]`, `mode "mig2" is unknown: use hami-core, mps or mig`},
		{"mode not a string", `[{"id":"G0","mode":1}]`, `"mode" is no string`},
		{"health not a truth value", `[{"id":"G0","health":"true"}]`, "is neither true nor false"},
		{"health a number", `[{"id":"G0","health":1}]`, `health "1" is neither`},
		{"invalid UTF-8", "[{\"id\":\"G\xff\"}]", "is not UTF-8"},
		{"oversized", "[" + strings.Repeat(" ", maxText) + "]", "more than the 262144"},
		{"colons cut short", "G0,10,24576,100,A100,0,true:G1,10,24", `device 1, "G1,10,24", does not end in ":"`},
		{"colons, cut to a device that looks whole", "G0,10,24576,100,A100,0,true", `does not end in ":"`},
		{"colons, eight fields", "G0,10,24576,100,A100,0,true,0:", "has 8 fields, want 7 or 9"},
		{"colons, empty device", "G0,10,24576,100,A100,0,true::", `device 1, "": it has 1 fields`},
		{"colons, no number", "G0,ten,24576,100,A100,0,true:", `count "ten" is not`},
		{"colons, missing number", "G0,10,,100,A100,0,true:", `devmem "" is not`},
		{"colons, health", "G0,10,24576,100,A100,0,yes:", `health "yes" is neither`},
		{"colons, mode", "G0,10,24576,100,A100,0,true,0,x:", `mode "x" is unknown`},
		{"colons, twice", "G0,1,1,1,A,0,true:G0,1,1,1,A,0,true:", "device G0 is listed twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			devices, err := DecodeInventory("NVIDIA", c.text, 1)
			if devices != nil {
				t.Errorf("devices beside an error: %v", devices)
			}
			saysShortly(t, err, c.want)
		})
	}
}

func TestInventoryHasABound(t *testing.T) {
	for name, entry := range map[string]func(i int) string{
		"JSON":   func(i int) string { return fmt.Sprintf(`{"id":"G%d"}`, i) },
		"colons": func(i int) string { return fmt.Sprintf("G%d,1,1,1,A,0,true:", i) },
	} {
		t.Run(name, func(t *testing.T) {
			var entries []string
			for i := range maxDevices + 1 {
				entries = append(entries, entry(i))
			}
			list := func(n int) string {
				if name == "JSON" {
					return "[" + strings.Join(entries[:n], ",") + "]"
				}
				return strings.Join(entries[:n], "")
			}
			if _, err := DecodeInventory("X", list(maxDevices), 1); err != nil {
				t.Error(err)
			}
			if _, err := DecodeInventory("X", list(maxDevices+1), 1); err == nil {
				t.Error("accepted more than the bound")
			}
		})
	}
}

// A block that would make the conversion to MiB meaningless or overflow is the caller's mistake.
func TestInventoryBlocks(t *testing.T) {
	for _, block := range []int64{-1, 0, device.MaxMemoryMiB + 1} {
		if _, err := DecodeInventory("X", `[{"id":"G0","devmem":1}]`, block); err == nil {
			t.Errorf("block of %d MiB: no error", block)
		}
	}
	if _, err := DecodeInventory("X", `[{"id":"G0","devmem":32769}]`,
		256); err == nil || !strings.Contains(err.Error(), "0 to 32768") {
		t.Errorf("one block too many: %v", err)
	}
}

func TestEncodeInventory(t *testing.T) {
	a, b := card("G0", 0, 24576), card("G1", 1, 40960)
	b.NUMA, b.Mode, b.Healthy, b.Cordoned = -1, device.MPS, false, true
	const want = `[{"id":"G0","index":0,"count":10,"devmem":24576,"devcore":100,"type":"NVIDIA A100","numa":0,"mode":"hami-core","health":true},` +
		`{"id":"G1","index":1,"count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100","numa":-1,"mode":"mps","health":false}]`
	for _, devices := range [][]device.Device{{a, b}, {b, a}} {
		first := devices[0]
		if got, err := EncodeInventory(devices); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		if devices[0] != first {
			t.Error("the caller's devices were changed")
		}
	}
	if got, err := EncodeInventory(nil); err != nil || got != "[]" {
		t.Errorf("no devices: %q, %v", got, err)
	}
	for name, spoil := range map[string]func(*device.Device){
		"no UUID":         func(d *device.Device) { d.UUID = "" },
		"torn UUID":       func(d *device.Device) { d.UUID = "a:b" },
		"UUID twice":      func(d *device.Device) { d.UUID = "G1" },
		"negative memory": func(d *device.Device) { d.Capacity.MemoryMiB = -1 },
		"invalid model":   func(d *device.Device) { d.Model = "\xff" },
		"invalid mode":    func(d *device.Device) { d.Mode = 9 },
	} {
		bad := a
		spoil(&bad)
		if text, err := EncodeInventory([]device.Device{bad, b}); err == nil {
			t.Errorf("%s: no error, but %s", name, text)
		}
	}
}

// decode(encode(x)) == x for random inventories, whatever the order they are given in.
func TestInventoryProperty(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		devices := make([]device.Device, r.IntN(9))
		for i := range devices {
			devices[i] = device.Device{
				UUID: fmt.Sprintf("G%d", i), Index: i / 2, Family: "AMD", Model: []string{"", "MI300X <1>",
					"é,:;"}[r.IntN(3)], NUMA: r.IntN(4) - 1,
				Capacity: device.Amount{Slots: r.Int64N(maxReplicas + 1),
					MemoryMiB: r.Int64N(device.MaxMemoryMiB + 1), Cores: r.Int64N(maxCores + 1)},
				Mode: device.Mode(r.IntN(3)), Healthy: r.IntN(2) == 0,
			}
		}
		mixed := append([]device.Device{}, devices...)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		text, err := EncodeInventory(mixed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := DecodeInventory("AMD", text, 1)
		if err != nil || len(got) != len(devices) || len(got) > 0 && !reflect.DeepEqual(got, devices) {
			t.Fatalf("seed %d: %s\ngot %+v, %v\nwant %+v", seed, text, got, err, devices)
		}
	}
}

func FuzzDecodeInventory(f *testing.F) {
	f.Add(`[{"id":"G0","index":0,"count":10,"devmem":24576,"devcore":100,"type":"A100","numa":0,"mode":"hami-core","health":true}]`, int64(1))
	f.Add("G0,10,24576,100,A100,0,true:G1,10,24576,100,A100,1,false,1,mig:", int64(256))
	f.Fuzz(func(t *testing.T, text string, blockMiB int64) {
		devices, err := DecodeInventory("X", text, blockMiB)
		if err != nil {
			return
		}
		most := device.Amount{Slots: maxReplicas, MemoryMiB: device.MaxMemoryMiB, Cores: maxCores}
		for _, d := range devices {
			if !d.Capacity.Within(most) || !(device.Amount{}).Within(d.Capacity) || d.UUID == "" || d.Family != "X" {
				t.Fatalf("accepted %+v", d)
			}
		}
		encoded, err := EncodeInventory(devices)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := DecodeInventory("X", encoded, 1)
		if err != nil || len(again) != len(devices) || len(again) > 0 && !reflect.DeepEqual(again, devices) {
			t.Fatalf("%s came back as %+v, %v, was %+v", encoded, again, err, devices)
		}
	})
}
