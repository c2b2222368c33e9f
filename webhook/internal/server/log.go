package server

import (
	"fmt"
	"io"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// Logger returns a logger that writes JSON lines from a level on ("debug", "info", "warn", "error"), and
// sends client-go's klog there too.
func Logger(level string, w io.Writer) (*zap.Logger, error) {
	at, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w: use debug, info, warn or error", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(zapcore.AddSync(w)), at))
	klog.SetLogger(zapr.NewLogger(log.Named("client-go")))
	return log, nil
}
