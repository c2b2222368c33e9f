package main

import (
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/phase"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/events"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
)

func TestOptions(t *testing.T) {
	o, err := parse([]string{"--node-policy=spread", "--device-policy", "binpack", "--release=hold", "--identity=host"},
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := podrequest.Defaults{NodePolicy: placement.Spread, DevicePolicy: placement.Binpack, Release: phase.Hold}
	if diff := cmp.Diff(want, o.Defaults); diff != "" || o.Identity != "host" || o.BindTimeout != 15*time.Second ||
		o.Listen != "127.0.0.1:8888" {
		t.Errorf("%s, %+v", diff, o)
	}
	for arg, want := range map[string][]string{
		"--qps=1":                                events.Reasons(), // by default
		"--events=GPUReleased, GPUOvercommitted": {"GPUReleased", "GPUOvercommitted"},
		"--events=":                              nil,
	} {
		if o, err := parse([]string{arg}, io.Discard); err != nil || !cmp.Equal(want, o.Events) {
			t.Errorf("%s: %v, %v", arg, o, err)
		}
	}
	for _, bad := range []string{
		"--node-policy=tetris", "--events=GPUReleased,all", "--release=never", "--bind-timeout=0s", "--qps=0", "extra",
		"--no-such-flag",
	} {
		if _, err := parse([]string{bad}, io.Discard); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
