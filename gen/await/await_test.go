package await_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/phasegpu/phasegpu/gen/await"
)

// recorder is a test that is told that it fails.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		await.Until(t, "five seconds", func() bool { return time.Since(start) >= 5*time.Second })
		if waited := time.Since(start); waited > 6*time.Second {
			t.Errorf("waited %v for what came after 5 s", waited)
		}
		r := &recorder{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			await.Until(r, "nothing", func() bool { return false })
			t.Error("it went on")
		}()
		<-ended
		if r.said != "not within 1m0s: nothing" {
			t.Errorf("it said %q", r.said)
		}
	})
}
