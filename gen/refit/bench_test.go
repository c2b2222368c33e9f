package refit_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/gen/baseline"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// BenchmarkRefitDecision moves the init container of a pod to another NUMA node, from objects as the API server
// holds them: a node of 8 cards with 8 other pods. The baseline adds up what the node's pods hold and takes the
// first allowed card with room.
func BenchmarkRefitDecision(b *testing.B) {
	var cards, allowed []string
	for i := range 8 {
		uuid := fmt.Sprint("GPU-", i)
		cards = append(cards, card(uuid, 40, fmt.Sprintf(`,"index":%d,"numa":%d`, i, i/4)))
		if i >= 4 {
			allowed = append(allowed, uuid)
		}
	}
	three := func(name, uuid string) *corev1.Pod {
		return pod(name, one('i', uuid, 8), one('s', uuid, 1), one('a', uuid, 4))
	}
	n, asked := rt.Node(cards...), three("asked", "GPU-0")
	pods := []corev1.Pod{*asked}
	for i := range 8 {
		pods = append(pods, *rt.Started(three(fmt.Sprint("other-", i), fmt.Sprint("GPU-", i))))
	}
	b.Run("pods=8/by=phasegpu", func(b *testing.B) {
		question := rt.Request(asked, 0, allowed...)
		for b.Loop() {
			if d, refusal := refit.Decide(asked, n, pods, question, refit.Defaults{}); refusal != nil || !d.Changed {
				b.Fatal(refusal)
			}
		}
	})
	b.Run("pods=8/by=peer", func(b *testing.B) {
		for b.Loop() {
			used := map[string]device.Amount{}
			for i := range pods[1:] {
				for _, shares := range baseline.Record(&pods[1+i]) {
					for _, s := range shares {
						u := used[s.UUID]
						used[s.UUID] = device.Amount{
							Slots: u.Slots + 1, MemoryMiB: u.MemoryMiB + s.Amount.MemoryMiB,
							Cores: u.Cores + s.Amount.Cores,
						}
					}
				}
			}
			capacity := map[string]int64{}
			for _, d := range kube.Node(n).Devices {
				capacity[d.UUID] = d.Capacity.MemoryMiB
			}
			want, found := baseline.Record(asked)[0][0].Amount.MemoryMiB, ""
			for _, uuid := range allowed {
				if found == "" && used[uuid].MemoryMiB+want <= capacity[uuid] {
					found = uuid
				}
			}
			if found == "" {
				b.Fatal("no room")
			}
		}
	})
}
