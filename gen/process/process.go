// Package process has what every phasegpu process needs besides its own work: common flags, logger, API client,
// listeners and graceful shutdown, serving certificate, health, metrics and profiles.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/phasegpu/phasegpu/gen/kube"
)

// Set by the linker, see the Makefile.
var version, commit = "dev", "unknown"

// Main runs a command until it returns, with a context that SIGINT and SIGTERM cancel. Then it ends the process: with
// code 1 after an error, else 0.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Options are the flags that every process has.
type Options struct {
	Kubeconfig, LogLevel string
	Version              bool
}

// Flags returns a flag set with these flags. Usage and flag errors go to w.
func (o *Options) Flags(name string, w io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig `file`; default: the pod's service account")
	f.StringVar(&o.LogLevel, "log-level", "info", "lowest `level` to log: debug, info, warn or error")
	f.BoolVar(&o.Version, "version", false, "print the version and exit")
	return f
}

// Parse parses flags and refuses arguments that are not flags.
func Parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: flags begin with --", f.Arg(0))
	}
	return nil
}

// PrintVersion prints what --version asks for.
func PrintVersion(name string, w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s %s (commit %s)\n", name, version, commit)
	return err
}

// Logger returns a logger that writes JSON lines to w, and sends client-go's log there too. Of equal messages it keeps
// 100 a second.
func (o *Options) Logger(w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(o.LogLevel)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w: use debug, info, warn or error", err)
	}
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(config.EncoderConfig), zapcore.Lock(zapcore.AddSync(w)), level)
	sampled := zapcore.NewSamplerWithOptions(core, time.Second, config.Sampling.Initial, config.Sampling.Thereafter)
	log := zap.New(sampled, zap.AddCaller())
	klog.SetLogger(zapr.NewLogger(log.Named("client-go")))
	return log, nil
}

// Client returns a client of the API server that --kubeconfig names, or else of the cluster in whose pod the process
// runs. With 0 for qps and burst client-go's defaults apply; a negative qps means no limit.
func (o *Options) Client(name string, qps float32, burst int) (kubernetes.Interface, error) {
	var config *rest.Config
	var err error
	if o.Kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	} else if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("not running in a pod: name the API server with --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("configuration of the API server's client: %w", err)
	}
	config = kube.Config(config)
	config.UserAgent = name + "/" + version
	config.QPS, config.Burst = qps, burst
	return kubernetes.NewForConfig(config)
}

// Recorder returns a recorder that writes events until ctx ends.
func Recorder(ctx context.Context, client kubernetes.Interface, name string, log *zap.Logger) events.EventRecorder {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		log.Error("events will not be written", zap.Error(err))
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, name)
}
