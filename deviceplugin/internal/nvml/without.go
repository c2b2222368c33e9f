//go:build !cgo

package nvml

import (
	"context"
	"errors"
)

// Watch fails: this binary has no NVML.
func Watch(context.Context, Options) error {
	return errors.New("this binary is built without cgo, so it has no NVML: declare the cards with --inventory-file, " +
		"or build it with CGO_ENABLED=1")
}
