package metrics

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/deviceplugin/internal/allocate"
)

// Metrics are the plugin's. Every known label value has a series from the start, at 0: rate() does not see the first
// increase of a series that begins with it.
type Metrics struct {
	calls         *prometheus.HistogramVec
	asked         *prometheus.HistogramVec
	refits        *prometheus.CounterVec
	registrations *prometheus.CounterVec
	patches       *prometheus.CounterVec
	problems      *prometheus.CounterVec
	xids          *prometheus.CounterVec
	lastXID       *prometheus.GaugeVec
	devices       *prometheus.GaugeVec
	drift         *prometheus.GaugeVec

	mu     sync.Mutex
	listed map[string]bool // UUIDs that have series
}

// New registers metrics.
func New(r prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "phasegpu_device_plugin_" + name, Help: help},
			labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "phasegpu_device_plugin_" + name, Help: help}, labels)
	}
	m := &Metrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phasegpu_device_plugin_call_duration_seconds", Help: "Kubelet's calls, by result: ok, error.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"call", "result"}),
		asked: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "phasegpu_device_plugin_refit_duration_seconds",
			Help:    "Requests to the refit service, by result: moved, unchanged, refused, failed.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2, 2.5}, // a request has 2 s
		}, []string{"result"}),
		refits: counter("refits_total", "Requests to the refit service, by result, with the service's reason for a "+
			"refusal "+
			"or the kind of failure.", "result", "reason"),
		registrations: counter("registrations_total", "Registrations with kubelet, by result: ok, error.", "result"),
		patches: counter("inventory_patches_total",
			"Patches of the node's inventory annotation, by result: ok, error.", "result"),
		problems: counter("problems_total", "What could not be read or done, by subject: "+
			strings.Join(subjects, ", ")+".", "about"),
		xids: counter("xids_total", "XIDs that cards reported; a fatal one makes its card unhealthy. "+
			"The codes are in the log.", "uuid", "fatal"),
		lastXID: gauge("last_xid", "The last XID that a card reported, 0 for none since the plugin began.", "uuid"),
		devices: gauge("devices", "Cards of the node, by state: healthy, unhealthy, mig (not offered).", "state"),
		drift: gauge("drift_containers", "Containers on which the API server, the records and kubelet's checkpoint "+
			"disagree: gone (kubelet keeps devices for a pod that no longer exists or has ended), strayed (got "+
			"another "+
			"container's devices, and is not started), unserved (recorded and admitted, without devices), moved (has "+
			"other "+
			"devices than its record names), unbooked (has devices without a record). No series while that is not "+
			"known.",
			"kind"),
		listed: map[string]bool{},
	}
	r.MustRegister(m.calls, m.asked, m.refits, m.registrations, m.patches, m.problems, m.xids, m.lastXID, m.devices,
		m.drift)
	for _, r := range []string{result(nil), result(errors.ErrUnsupported)} {
		for _, call := range []string{preferred, allocated, preStart} {
			m.calls.WithLabelValues(call, r)
		}
		m.registrations.WithLabelValues(r)
		m.patches.WithLabelValues(r)
	}
	for _, about := range subjects {
		m.problems.WithLabelValues(about)
	}
	return m
}

// subjects of problems.
var subjects = []string{"cache", "checkpoint", "drift", "inventory_file", "nvml", "pods", "record"}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// Called counts a call by kubelet.
func (m *Metrics) Called(call string, start time.Time, err error) {
	m.calls.WithLabelValues(call, result(err)).Observe(time.Since(start).Seconds())
}

// Refitted counts a request to the refit service.
func (m *Metrics) Refitted(result, reason string, start time.Time) {
	m.asked.WithLabelValues(result).Observe(time.Since(start).Seconds())
	m.refits.WithLabelValues(result, reason).Inc()
}

// Registered counts a registration.
func (m *Metrics) Registered(err error) { m.registrations.WithLabelValues(result(err)).Inc() }

// Patched counts a patch of the inventory annotation.
func (m *Metrics) Patched(err error) { m.patches.WithLabelValues(result(err)).Inc() }

// Problem counts a problem.
func (m *Metrics) Problem(about string) { m.problems.WithLabelValues(about).Inc() }

// XID counts an XID.
func (m *Metrics) XID(uuid string, code uint64, fatal bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listed[uuid] {
		m.xids.WithLabelValues(uuid, strconv.FormatBool(fatal)).Inc()
		m.lastXID.WithLabelValues(uuid).Set(float64(code))
	}
}

// Devices shows the node's cards. The series of a card end with it.
func (m *Metrics) Devices(devices []device.Device) {
	states := map[string]int{"healthy": 0, "unhealthy": 0, "mig": 0}
	listed := map[string]bool{}
	for _, d := range devices {
		listed[d.UUID] = true
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
	m.mu.Lock()
	defer m.mu.Unlock()
	for uuid := range m.listed {
		if !listed[uuid] {
			m.xids.DeletePartialMatch(prometheus.Labels{"uuid": uuid})
			m.lastXID.DeletePartialMatch(prometheus.Labels{"uuid": uuid})
		}
	}
	for uuid := range listed {
		m.xids.WithLabelValues(uuid, "true")
		m.xids.WithLabelValues(uuid, "false")
		m.lastXID.WithLabelValues(uuid)
	}
	m.listed = listed
}

// Drift shows the drift.
func (m *Metrics) Drift(d allocate.Drift) {
	for kind, n := range map[string]int{
		"gone": d.Gone, "strayed": d.Strayed, "unserved": d.Unserved, "moved": d.Moved, "unbooked": d.Unbooked,
	} {
		m.drift.WithLabelValues(kind).Set(float64(n))
	}
}

// DriftUnknown ends the series of the drift, which may be outdated.
func (m *Metrics) DriftUnknown() {
	m.drift.Reset()
	m.Problem("drift")
}
