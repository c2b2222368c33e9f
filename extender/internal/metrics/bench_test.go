package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// BenchmarkScrape is one scrape of the books of nodes with 8 devices and 8 pods each, of which one in ten is
// before its init container. It runs beside Filter on the same processors.
func BenchmarkScrape(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			book := ledger.New()
			for n := range nodes {
				node := ledger.Node{Name: fmt.Sprintf("node-%04d.gpu.example.internal", n)}
				for d := range 8 {
					node.Devices = append(node.Devices, device.Device{
						UUID: fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", n, d), Index: d, Family: "NVIDIA",
						Healthy:  true,
						Capacity: device.Amount{Slots: 10, MemoryMiB: 24576, Cores: 100},
					})
				}
				book.SetNode(node)
				for d := range 8 {
					p := ledger.Pod{
						UID: fmt.Sprint(n, "/", d), Namespace: "ns", Name: fmt.Sprint(n, "-", d), Node: node.Name,
						Classes: phase.Pod{phase.Init, phase.App}, First: 1,
						Allocation: device.Allocation{on(node.Devices[d].UUID, 8000, 0),
							on(node.Devices[d].UUID, 6000, 0)},
					}
					if (n+d)%10 == 0 {
						p.First = 0
					}
					book.Observe(p)
				}
			}
			r, e := prometheus.NewRegistry(), &extender{}
			r.MustRegister(&Collector{Book: book, Gates: e, Requeue: e, Lease: e})
			handler := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
			b.ReportAllocs()
			for b.Loop() {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				b.ReportMetric(float64(answer.Body.Len())/1e6, "MB/scrape")
			}
		})
	}
}
