package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
)

// Metrics are what the plugin counts.
type Metrics struct {
	Registry      *prometheus.Registry
	calls         *prometheus.HistogramVec
	refits        *prometheus.HistogramVec
	registrations *prometheus.CounterVec
	patches       *prometheus.CounterVec
	problems      *prometheus.CounterVec
	xids          *prometheus.CounterVec
	devices       *prometheus.GaugeVec
	drift         *prometheus.GaugeVec
}

// NewMetrics returns metrics in a registry of their own.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "phasegpu_device_plugin_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "phasegpu_device_plugin_" + name, Help: help}, labels)
	}
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phasegpu_device_plugin_call_duration_seconds", Help: "Kubelet's calls.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"call", "result"}),
		refits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phasegpu_device_plugin_refit_duration_seconds",
			Help: "Questions to the refit service, by result (moved, unchanged, refused, failed) and the service's reason or the kind of failure.",
			// A question has 2 s.
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 2.5},
		}, []string{"result", "reason"}),
		registrations: counter("registrations_total", "Registrations with kubelet.", "result"),
		patches:       counter("inventory_patches_total", "Patches of the node's inventory annotation.", "result"),
		problems:      counter("problems_total", "What could not be read or done, by what it was about: cache, checkpoint, drift, inventory_file, nvml, record.", "about"),
		xids:          counter("xids_total", "XIDs that cards reported; a fatal one makes its card unhealthy.", "device", "xid", "fatal"),
		devices:       gauge("devices", "Cards of the node, by state: healthy, unhealthy, mig (not offered).", "state"),
		drift: gauge("drift_containers", "Containers on which the API server, the records and kubelet's checkpoint do not agree: "+
			"gone (kubelet keeps devices for a pod that the API server has not, or as ended), strayed (got what was meant for another, and is not started), "+
			"unserved (recorded, admitted and without devices), moved (has other devices than its record names), unbooked (has devices without a record).", "kind"),
	}
	m.Registry.MustRegister(m.calls, m.refits, m.registrations, m.patches, m.problems, m.xids, m.devices, m.drift,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// Called counts a call of kubelet's.
func (m *Metrics) Called(call string, start time.Time, err error) {
	m.calls.WithLabelValues(call, result(err)).Observe(time.Since(start).Seconds())
}

// Refitted counts a question to the refit service.
func (m *Metrics) Refitted(result, reason string, start time.Time) {
	m.refits.WithLabelValues(result, reason).Observe(time.Since(start).Seconds())
}

// Registered counts a registration.
func (m *Metrics) Registered(err error) { m.registrations.WithLabelValues(result(err)).Inc() }

// Patched counts a patch of the inventory annotation.
func (m *Metrics) Patched(err error) { m.patches.WithLabelValues(result(err)).Inc() }

// Problem counts what went wrong.
func (m *Metrics) Problem(about string) { m.problems.WithLabelValues(about).Inc() }

// XID counts an XID.
func (m *Metrics) XID(uuid string, code uint64, fatal bool) {
	m.xids.WithLabelValues(uuid, strconv.FormatUint(code, 10), strconv.FormatBool(fatal)).Inc()
}

// Devices shows the node's cards.
func (m *Metrics) Devices(devices []device.Device) {
	states := map[string]int{"healthy": 0, "unhealthy": 0, "mig": 0}
	for _, d := range devices {
		switch {
		case d.Mode == device.MIG:
			states["mig"]++
		case d.Healthy:
			states["healthy"]++
		default:
			states["unhealthy"]++
		}
	}
	for state, n := range states {
		m.devices.WithLabelValues(state).Set(float64(n))
	}
}

// Drift shows what does not agree.
func (m *Metrics) Drift(d allocate.Drift) {
	for kind, n := range map[string]int{"gone": d.Gone, "strayed": d.Strayed, "unserved": d.Unserved, "moved": d.Moved, "unbooked": d.Unbooked} {
		m.drift.WithLabelValues(kind).Set(float64(n))
	}
}
