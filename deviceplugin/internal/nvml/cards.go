//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/inventory"
)

const mebibyte = 1 << 20

// pciDevices is where Linux shows the NUMA node of a PCI device.
const pciDevices = "/sys/bus/pci/devices"

// look asks NVML for all cards. A card that does not answer stays as it is in before, the last result, but unhealthy;
// it is left out if it is not there. The error joins those of all cards. If NVML fails as a whole, there are no cards.
func look(lib nvml.Interface, before []inventory.Card, pci string) ([]inventory.Card, error) {
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("NVML: number of cards: %w", ret)
	}
	cards := []inventory.Card{}
	var failed []error
	for index := range count {
		card, err := one(lib, index, pci)
		if err == nil {
			cards = append(cards, card)
			continue
		}
		failed = append(failed, fmt.Errorf("NVML: card %d: %w", index, err))
		for _, old := range before {
			if old.Index == index {
				old.Healthy = false
				cards = append(cards, old)
			}
		}
	}
	return cards, errors.Join(failed...)
}

// one asks for the card with an index.
func one(lib nvml.Interface, index int, pci string) (inventory.Card, error) {
	d, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return inventory.Card{}, fmt.Errorf("handle: %w", ret)
	}
	card := inventory.Card{Index: index, Healthy: true}
	if card.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		return inventory.Card{}, fmt.Errorf("UUID: %w", ret)
	}
	if card.Model, ret = d.GetName(); ret != nvml.SUCCESS {
		return inventory.Card{}, fmt.Errorf("%s: name: %w", card.UUID, ret)
	}
	memory, ret := d.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return inventory.Card{}, fmt.Errorf("%s: memory: %w", card.UUID, ret)
	}
	card.MemoryMiB = int64(memory.Total / mebibyte)
	switch mode, _, ret := d.GetMigMode(); ret {
	case nvml.SUCCESS:
		card.MIG = mode == nvml.DEVICE_MIG_ENABLE
	case nvml.ERROR_NOT_SUPPORTED: // most cards
	default:
		return inventory.Card{}, fmt.Errorf("%s: MIG mode: %w", card.UUID, ret)
	}
	at, ret := d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return inventory.Card{}, fmt.Errorf("%s: PCI address: %w", card.UUID, ret)
	}
	var err error
	if card.NUMA, err = numaNode(pci, address(at)); err != nil {
		return inventory.Card{}, fmt.Errorf("%s: %w", card.UUID, err)
	}
	return card, nil
}

// address writes a PCI address as Linux names devices, "0000:3b:00.0"; NVML writes "00000000:3B:00.0".
func address(at nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", at.Domain, at.Bus, at.Device)
}

// numaNode reads the NUMA node of a PCI device. It is -1 if Linux has none, as on a machine with a single NUMA node, or
// does not show the device, as in some virtual machines.
func numaNode(pci, address string) (int, error) {
	text, err := os.ReadFile(filepath.Join(pci, address, "numa_node"))
	if errors.Is(err, os.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("NUMA node: %w", err)
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("NUMA node of PCI device %s: %w", address, err)
	}
	return max(node, -1), nil
}
