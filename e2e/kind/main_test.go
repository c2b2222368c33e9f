//go:build kind

package kind_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/phasegpu/phasegpu/e2e/kind"
)

func TestMain(m *testing.M) {
	if err := kind.Build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
