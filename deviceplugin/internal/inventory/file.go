package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxFile bounds an inventory file, in bytes.
const maxFile = 256 << 10

// declared is a card in the inventory file. Absent health is good health; an absent NUMA node is none.
type declared struct {
	UUID      string `json:"uuid"`
	Model     string `json:"model"`
	MemoryMiB int64  `json:"memoryMiB"`
	NUMA      *int   `json:"numa"`
	MIG       bool   `json:"mig"`
	Healthy   *bool  `json:"healthy"`
}

// ReadFile reads an inventory file: {"cards": [{"uuid", "model", "memoryMiB", "numa", "mig", "healthy"}]}, see the
// module's README. A card's index is its place in the list. Unknown fields are errors, because a misspelt field would
// silently get its default.
func ReadFile(path string) ([]Card, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("inventory file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("inventory file: %w", err)
	}
	cards, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("inventory file %s: %w", path, err)
	}
	return cards, nil
}

func parse(text []byte) ([]Card, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxFile)
	}
	var content struct {
		Cards *[]declared `json:"cards"`
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&content); err != nil {
		return nil, fmt.Errorf("byte %d: %w", in.InputOffset(), err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is something after the end of the object, at byte %d", in.InputOffset())
	}
	if content.Cards == nil {
		return nil, errors.New(`"cards" is missing; a node without cards has "cards": []`)
	}
	cards := make([]Card, len(*content.Cards))
	for i, d := range *content.Cards {
		cards[i] = Card{UUID: d.UUID, Index: i, Model: d.Model, MemoryMiB: d.MemoryMiB, NUMA: -1, MIG: d.MIG,
			Healthy: true}
		if d.NUMA != nil {
			cards[i].NUMA = *d.NUMA
		}
		if d.Healthy != nil {
			cards[i].Healthy = *d.Healthy
		}
	}
	return cards, nil
}
