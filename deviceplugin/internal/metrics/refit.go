package metrics

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// The results of a request to the refit service.
const (
	moved     = "moved"
	unchanged = "unchanged"
	refused   = "refused"
	failed    = "failed"
)

// observedRefit counts and logs requests to the refit service.
type observedRefit struct {
	allocate.Refitter
	metrics *Metrics
	log     *zap.Logger
}

// ObserveRefit returns the service, with its requests counted and logged. The results have series from now on. Refused
// and failed also have reasons: too many for a series each on every node.
func ObserveRefit(service allocate.Refitter, m *Metrics, log *zap.Logger) allocate.Refitter {
	for _, r := range []string{moved, unchanged, refused, failed} {
		m.asked.WithLabelValues(r)
	}
	m.refits.WithLabelValues(moved, "")
	m.refits.WithLabelValues(unchanged, "")
	return observedRefit{service, m, log}
}

// Ask implements allocate.Refitter.
func (o observedRefit) Ask(ctx context.Context, q *refit.Request) (*refit.Answer, error) {
	start := time.Now()
	answer, err := o.Refitter.Ask(ctx, q)
	result, reason := outcome(answer, err)
	o.metrics.Refitted(result, reason, start)
	fields := []zap.Field{
		zap.String("pod", q.Pod.Namespace+"/"+q.Pod.Name), zap.String("container", q.Container.Name),
		zap.Strings("allowed", q.Allowed), zap.String("result", result), zap.Duration("took", time.Since(start)),
	}
	if err != nil {
		o.log.Warn("the container's record does not follow kubelet", append(fields, zap.Error(err))...)
		return nil, err
	}
	o.log.Info("the container's record follows kubelet", append(fields, zap.Strings("devices", answer.Devices))...)
	return answer, nil
}

// outcome returns the result of a request, and the service's reason or the kind of failure.
func outcome(answer *refit.Answer, err error) (result, reason string) {
	var refusal *refit.Refusal
	var failure *refitclient.Failure
	switch {
	case errors.As(err, &refusal):
		return refused, string(refusal.Reason)
	case errors.As(err, &failure):
		return failed, string(failure.Kind)
	case err != nil:
		return failed, ""
	case answer.Moved:
		return moved, ""
	}
	return unchanged, ""
}
