package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/gen/admission"
	"github.com/phasegpu/phasegpu/gen/yamltest"
)

// A pod is told all that is wrong with it at once. The messages are tested with the webhook.
func TestReview(t *testing.T) {
	for name, test := range map[string]struct {
		pod      string
		refusals []admission.Reason
		warnings int
		requests int
	}{
		"without devices": {`
metadata: {annotations: {phasegpu.io/relase: hold}}
spec: {nodeName: n1, schedulerName: volcano, containers: [{name: a}]}`, nil, 1, 0},
		"fine": {`
spec: {schedulerName: kueue, containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}, {name: b}]}`, nil, 0, 2},
		"everything": {`
metadata: {annotations: {phasegpu.io/relase: hold, phasegpu.io/release: never}}
spec:
  nodeName: n1
  schedulerName: volcano
  containers:
  - name: a
    securityContext: {privileged: true}
    resources: {limits: {nvidia.com/gpu: 0}}`, []admission.Reason{
			admission.Request, admission.NodeName, admission.Scheduler, admission.Privileged, admission.Annotation,
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := admission.Review(yamltest.Read[corev1.Pod](t, test.pod), []string{"kueue"})
			var got []admission.Reason
			for _, r := range v.Refusals {
				got = append(got, r.Reason)
			}
			if diff := cmp.Diff(test.refusals, got); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
			if len(v.Warnings) != test.warnings || len(v.Requests) != test.requests {
				t.Errorf("warnings %q, requests %v", v.Warnings, v.Requests)
			}
		})
	}
}
