package server

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/refitclient"
	"github.com/phasegpu/phasegpu/gen/refit"
)

// ask is one question to the refit service.
type ask = func(context.Context, *refit.Request) (*refit.Answer, error)

// The results of a question.
const (
	moved     = "moved"
	unchanged = "unchanged"
	refused   = "refused"
	failed    = "failed"
)

// ObservedRefit counts and logs questions to the refit service.
func ObservedRefit(service ask, m *Metrics, log *zap.Logger) ask {
	m.Refits()
	return func(ctx context.Context, q *refit.Request) (*refit.Answer, error) {
		start := time.Now()
		answer, err := service(ctx, q)
		result, reason := outcome(answer, err)
		m.Refitted(result, reason, start)
		fields := []zap.Field{
			zap.String("pod", q.Pod.Namespace+"/"+q.Pod.Name), zap.String("container", q.Container.Name), zap.Strings("allowed", q.Allowed),
			zap.String("result", result), zap.Duration("took", time.Since(start)),
		}
		if err != nil {
			log.Warn("the container's record does not follow kubelet", append(fields, zap.Error(err))...)
			return nil, err
		}
		log.Info("the container's record follows kubelet", append(fields, zap.Strings("devices", answer.Devices))...)
		return answer, nil
	}
}

// outcome returns the result of a question (moved, unchanged, refused or failed) and the service's reason or
// the kind of failure.
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
