package consumer

import (
	"slices"
	"testing"

	"github.com/phasegpu/phasegpu/core/ledger"
)

const card = `[{"id":"GPU-0","count":10,"devmem":24576,"devcore":100,"health":true}]`

func TestReserve(t *testing.T) {
	record, reserved, err := Reserve(card, 20480, 10240)
	if err != nil {
		t.Fatal(err)
	}
	if want := "GPU-0,NVIDIA,20480,0:;GPU-0,NVIDIA,10240,0:;"; record != want {
		t.Errorf("record %q, want %q", record, want)
	}
	if want := []int64{20480, 10240}; !slices.Equal(reserved, want) {
		t.Errorf("reserved %v, want %v", reserved, want)
	}
	if _, _, err := Reserve(card, 30720, 10240); err == nil {
		t.Error("a pod larger than the card was placed")
	}
}

func TestLedger(t *testing.T) {
	if ledger.New().Node("nowhere") != nil {
		t.Error("an empty book knows a node")
	}
}
