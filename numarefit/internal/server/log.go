package server

import (
	"fmt"
	"io"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// Logger returns a logger of JSON lines from a level on (debug, info, warn, error); client-go's klog goes
// there too.
func Logger(level string, w io.Writer) (*zap.Logger, error) {
	from, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w: use debug, info, warn or error", err)
	}
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.EncodeDuration = zapcore.StringDurationEncoder
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(config), zapcore.Lock(zapcore.AddSync(w)), from))
	klog.SetLogger(zapr.NewLogger(log.Named("client-go")))
	return log, nil
}
