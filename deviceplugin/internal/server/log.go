// Package server is what the device plugin's process is made of besides kubelet's calls: the logger, the
// metrics, and the HTTP server for health and metrics.
package server

import (
	"fmt"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// Logger returns a JSON logger of a level (debug, info, warn, error) and has client-go's klog write to it.
func Logger(level string) (*zap.Logger, error) {
	l, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(l)
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	log, err := config.Build()
	if err != nil {
		return nil, err
	}
	klog.SetLogger(zapr.NewLogger(log.Named("client-go")))
	return log, nil
}
