package nodefit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/placement"
	"github.com/phasegpu/phasegpu/extender/internal/nodefit"
	"github.com/phasegpu/phasegpu/extender/internal/podrequest"
	"github.com/phasegpu/phasegpu/extender/internal/sample"
)

// A gate refuses only where nothing else does, quotas only where the devices fit, and only pods whose charge the
// devices decide.
func TestFit(t *testing.T) {
	book := sample.NewBook()
	for _, node := range []string{"free", "full", "spoilt"} {
		book.Add(node, 1)
	}
	book.Hold("holder", "full", "full-0", 0, 20000)
	book.Spoil("broken", "spoilt")
	book.SetNode(ledger.Node{Name: "garbage", Unreadable: "annotation: not JSON"})
	book.Limit(10000)
	half := sample.Pod("half", 0, 0) // its quota has no room for half a card
	half.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		"nvidia.com/gpumem-percentage": resource.MustParse("50"),
	}
	for _, test := range []struct {
		pod        *corev1.Pod
		node, gate string
		kind       nodefit.Kind
		lasting    bool
		says       string
	}{
		{pod: sample.Pod("p", 0, 12000), node: "free"},
		{pod: sample.Pod("p", 0, 12000), node: "free", gate: "shut", kind: nodefit.Gate, says: "shut"},
		{
			pod: sample.Pod("p", 0, 12000), node: "full", gate: "shut", kind: nodefit.Devices,
			says: "Insufficient GPU memory in the pod's phases",
		},
		{
			pod: sample.Pod("p", 0, 30000), node: "free", kind: nodefit.Devices, lasting: true,
			says: "GPUs too small for the pod's phases",
		},
		{pod: sample.Pod("p", 0, 1), node: "unknown", kind: nodefit.Node, says: nodefit.UnknownNode},
		{pod: sample.Pod("p", 0, 1), node: "garbage", kind: nodefit.Node, says: nodefit.UnreadableNode},
		{pod: sample.Pod("p", 0, 1), node: "spoilt", kind: nodefit.Node, says: nodefit.UnreadablePod},
		{pod: half, node: "free", gate: "shut", kind: nodefit.Quota, says: nodefit.OverQuota},
	} {
		r, err := podrequest.Parse(test.pod, podrequest.Defaults{})
		if err != nil {
			t.Fatal(err)
		}
		var s placement.Scratch
		_, got := nodefit.Fit(&s, r, book.Node(test.node), test.gate, book)
		if got.Kind != test.kind || got.Reason != test.says || got.Lasting != test.lasting {
			t.Errorf("%v on %s: %+v, want %q", r, test.node, got, test.says)
		}
		if !got.Refused() && s.Allocation().IsEmpty() {
			t.Errorf("%v on %s: fits without an allocation", r, test.node)
		}
		if got.Kind == nodefit.Quota && got.Misses != 12288+20000-10000 {
			t.Errorf("the quota is exceeded by %d: %v", got.Misses, &got)
		}
	}
}
