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
	if err := prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare(ctx context.Context) error {
	if err := kind.Build(ctx); err != nil {
		return err
	}
	cluster, err := kind.Connect(ctx)
	if err != nil {
		return err
	}
	return cluster.Sweep(ctx)
}
