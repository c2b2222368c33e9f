// Package metrics counts what the plugin does and observes the calls of kubelet and of the refit service.
package metrics

import (
	"context"
	"time"

	"go.uber.org/zap"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/kubelet"
)

// Kubelet's calls.
const (
	preferred = "GetPreferredAllocation"
	allocated = "Allocate"
	preStart  = "PreStartContainer"
)

// Observed counts and logs the calls of an allocator.
type Observed struct {
	kubelet.Allocator
	Metrics *Metrics
	Log     *zap.Logger
}

// Preferred implements kubelet.Allocator.
func (o Observed) Preferred(ctx context.Context, available, must []string, size int) ([]string, error) {
	start := time.Now()
	ids, err := o.Allocator.Preferred(ctx, available, must, size)
	o.called(preferred, start, err, zap.Int("size", size), zap.Strings("preferred", ids))
	return ids, err
}

// Allocate implements kubelet.Allocator.
func (o Observed) Allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	start := time.Now()
	answer, err := o.Allocator.Allocate(ctx, ids)
	o.called(allocated, start, err, zap.Strings("ids", ids), zap.Any("for", answer.GetAnnotations()),
		zap.String("devices", answer.GetEnvs()["NVIDIA_VISIBLE_DEVICES"]))
	return answer, err
}

// PreStart implements kubelet.Allocator.
func (o Observed) PreStart(ctx context.Context, ids []string) error {
	start := time.Now()
	err := o.Allocator.PreStart(ctx, ids)
	o.called(preStart, start, err, zap.Strings("ids", ids))
	return err
}

func (o Observed) called(call string, start time.Time, err error, fields ...zap.Field) {
	o.Metrics.Called(call, start, err)
	fields = append(fields, zap.String("call", call), zap.Duration("took", time.Since(start)))
	if err != nil {
		o.Log.Warn("refused kubelet", append(fields, zap.Error(err))...)
		return
	}
	o.Log.Info("answered kubelet", fields...)
}
