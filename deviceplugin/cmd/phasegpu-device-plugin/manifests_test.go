package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/phasegpu/phasegpu/deviceplugin/internal/isolation"
	"github.com/phasegpu/phasegpu/gen/refit"
	"github.com/phasegpu/phasegpu/gen/yamltest"
)

// What the flags name is mounted, at the same path as on the node.
func TestDaemonSetMountsWhatThePluginReads(t *testing.T) {
	spec := yamltest.Manifest[appsv1.DaemonSet](t, "daemonset.yaml", "DaemonSet").Spec
	pod := spec.Template.Spec
	container := pod.Containers[0]
	t.Setenv(container.Env[0].Name, "n1")
	o, err := parse(container.Args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for _, v := range pod.Volumes {
		paths[v.Name] = v.HostPath.Path
	}
	mounted := map[string]bool{}
	for _, m := range container.VolumeMounts {
		if paths[m.Name] != m.MountPath {
			t.Errorf("%s of the node is mounted at %s: containers mount the node's path", paths[m.Name],
				m.MountPath)
		}
		mounted[m.MountPath] = true
	}
	for _, dir := range []string{o.kubeletDir, o.isolation.(isolation.HAMiCore).Dir} {
		if !mounted[dir] {
			t.Errorf("%s is not mounted", dir)
		}
	}
	if surge := spec.UpdateStrategy.RollingUpdate.MaxSurge.IntValue(); surge != 0 {
		t.Errorf("%d more plugins during an update: they would fight over the socket", surge)
	}
	s := container.SecurityContext
	if s.Privileged != nil || *s.AllowPrivilegeEscalation || len(s.Capabilities.Add) > 0 ||
		!*s.ReadOnlyRootFilesystem || pod.HostNetwork || pod.HostPID {
		t.Errorf("privileges that the plugin does not need: %+v", s)
	}
}

func TestRoleGivesTheLeast(t *testing.T) {
	role := yamltest.Manifest[rbacv1.ClusterRole](t, "rbac.yaml", "ClusterRole")
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch", "patch"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// The components' flags are the plugin's, and what they name is mounted.
func TestComponents(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	for name, check := range map[string]func(*options) (file string, ok bool){
		"declared": func(o *options) (string, bool) { return filepath.Dir(o.inventoryFile), true },
		"numa-refit": func(o *options) (string, bool) {
			return filepath.Dir(o.refit.CAFile), filepath.Dir(o.refit.TokenFile) == filepath.Dir(o.refit.CAFile)
		},
		"mps": func(o *options) (string, bool) { return o.isolation.(isolation.MPS).Dir, true },
		"cdi": func(o *options) (string, bool) { return "", o.cdiKind == "nvidia.com/gpu" },
	} {
		component := yamltest.Manifest[struct {
			metav1.TypeMeta `json:",inline"`
			Patches         []struct {
				Target struct{ Kind, Name string } `json:"target"`
				Patch  string                      `json:"patch"`
			} `json:"patches"`
		}](t, name+"/kustomization.yaml", "Component")
		var steps []struct {
			Op, Path string
			Value    json.RawMessage
		}
		if err := yaml.Unmarshal([]byte(component.Patches[0].Patch), &steps); err != nil {
			t.Fatal(err)
		}
		spec := yamltest.Manifest[appsv1.DaemonSet](t, "daemonset.yaml", "DaemonSet").Spec.Template.Spec
		var args []string
		mounted := map[string]bool{"": true}
		for _, step := range steps {
			var arg string
			var mount corev1.VolumeMount
			var volume corev1.Volume
			var err error
			switch strings.TrimPrefix(step.Path, "/spec/template/spec/") {
			case "containers/0/args/-", "containers/0/args/0":
				err = json.Unmarshal(step.Value, &arg)
				args = append(args, arg)
				if step.Op == "test" && arg != spec.Containers[0].Args[0] {
					t.Errorf("%s expects %s, the DaemonSet has %s", name, arg, spec.Containers[0].Args[0])
				}
			case "containers/0/volumeMounts/-", "containers/0/volumeMounts/1":
				err = json.Unmarshal(step.Value, &mount)
				mounted[mount.MountPath] = true
			case "volumes/-", "volumes/1":
				err = yaml.UnmarshalStrict(step.Value, &volume)
				if p := volume.Projected; p != nil && p.Sources[0].ServiceAccountToken.Audience != refit.Audience {
					t.Errorf("the token is for %q, want %q", p.Sources[0].ServiceAccountToken.Audience, refit.Audience)
				}
			case "containers/0/volumeMounts/1/name", "volumes/1/name":
				if step.Op != "test" || string(step.Value) != strconv.Quote(spec.Volumes[1].Name) ||
					spec.Volumes[1].Name != spec.Containers[0].VolumeMounts[1].Name {
					t.Errorf("%s: %s %s %s, the DaemonSet has %s", name, step.Op, step.Path, step.Value,
						spec.Volumes[1].Name)
				}
			default:
				t.Errorf("%s patches %s", name, step.Path)
			}
			if err != nil {
				t.Errorf("%s: %s: %v", name, step.Path, err)
			}
		}
		o, err := parse(args, io.Discard)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if dir, ok := check(o); !ok || !mounted[dir] {
			t.Errorf("%s: %s is not mounted", name, dir)
		}
	}
}

// object is a Kubernetes object or a part of one.
type object = map[string]any

// The policy lets a plugin write the inventory of the node its token is bound to, and nothing else.
func TestNodePolicy(t *testing.T) {
	node := func(change func(o object)) object {
		o := object{
			"metadata": object{"name": "n1", "labels": object{"zone": "a"},
				"annotations": object{"other": "x", "hami.io/node-nvidia-register": "[]"}},
			"spec": object{"podCIDR": "10.0.0.0/24"},
		}
		if change != nil {
			change(o)
		}
		return o
	}
	annotations := func(o object) object { return o["metadata"].(object)["annotations"].(object) }
	inventory := func(o object) { annotations(o)["hami.io/node-nvidia-register"] = "[{}]" }
	first := func(o object) { delete(annotations(o), "hami.io/node-nvidia-register") }
	bare := func(o object) { o["metadata"] = object{"name": "n1", "labels": object{"zone": "a"}} }
	only := func(o object) {
		o["metadata"] = object{"name": "n1", "labels": object{"zone": "a"},
			"annotations": object{"hami.io/node-nvidia-register": "[]"}}
	}
	update := object{"operation": "UPDATE", "name": "n1"}
	for name, c := range map[string]struct {
		request object
		bound   string
		before  object
		after   object
		refused string
	}{
		"its inventory":               {update, "n1", node(nil), node(inventory), ""},
		"its first inventory":         {update, "n1", node(first), node(inventory), ""},
		"the node's first annotation": {update, "n1", node(bare), node(only), ""},
		"another node": {object{"operation": "UPDATE", "name": "n1"}, "n2", node(nil), node(inventory),
			"may not change node"},
		"a token bound to no node": {update, "", node(nil), node(inventory), "may not change node"},
		"another annotation": {update, "n1", node(nil), node(func(o object) { annotations(o)["other"] = "y" }),
			"annotation"},
		"a new annotation": {update, "n1", node(nil), node(func(o object) { annotations(o)["new"] = "y" }),
			"annotation"},
		"an annotation removed": {update, "n1", node(nil), node(func(o object) {
			delete(annotations(o),
				"other")
		}), "annotation"},
		"a label": {update, "n1", node(nil),
			node(func(o object) { o["metadata"].(object)["labels"] = object{"zone": "b"} }), "label"},
		"its labels removed": {update, "n1", node(nil), node(func(o object) {
			delete(o["metadata"].(object),
				"labels")
		}), "label"},
		"a finalizer": {update, "n1", node(nil),
			node(func(o object) { o["metadata"].(object)["finalizers"] = []any{"f"} }), "label"},
		"a taint": {update, "n1", node(nil),
			node(func(o object) { o["spec"].(object)["taints"] = []any{object{"key": "k"}} }), "taint"},
		"its status": {object{"operation": "UPDATE", "name": "n1", "subResource": "status"}, "n1",
			node(nil), node(nil), "nothing else"},
		"a new node": {object{"operation": "CREATE", "name": "n1"}, "n1", nil, node(nil),
			"nothing else"},
		"deletion": {object{"operation": "DELETE", "name": "n1"}, "n1", node(nil), nil,
			"nothing else"},
	} {
		t.Run(name, func(t *testing.T) {
			extra := object{}
			if c.bound != "" {
				extra["authentication.kubernetes.io/node-name"] = []any{c.bound}
			}
			request := object{"userInfo": object{"username": "system:serviceaccount:phasegpu-node:phasegpu-device-plugin", "extra": extra}}
			for k, v := range c.request {
				request[k] = v
			}
			refusals := strings.Join(evaluate(t, request, c.before, c.after), "; ")
			if c.refused == "" && refusals != "" {
				t.Errorf("refused: %s", refusals)
			}
			if !strings.Contains(refusals, c.refused) {
				t.Errorf("refusals %q, want one about %q", refusals, c.refused)
			}
		})
	}
}

// evaluate applies the policy as the API server does: variables are expressions put in where they are named.
func evaluate(t *testing.T, request, before, after object) (refusals []string) {
	t.Helper()
	policy := yamltest.Manifest[admissionregistrationv1.ValidatingAdmissionPolicy](t, "node-policy.yaml",
		"ValidatingAdmissionPolicy").Spec
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.HomogeneousAggregateLiterals(),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	variables := object{}
	input := object{"request": request, "object": nullable(after), "oldObject": nullable(before),
		"variables": variables}
	value := func(expression string) any {
		t.Helper()
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		result, _, err := program.Eval(input)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		return result.Value()
	}
	if !value(policy.MatchConditions[0].Expression).(bool) {
		t.Fatal("the policy does not match the plugin's service account")
	}
	for _, v := range policy.Variables {
		variables[v.Name] = value(v.Expression)
	}
	for _, v := range policy.Validations {
		if value(v.Expression).(bool) {
			continue
		}
		if v.MessageExpression != "" {
			refusals = append(refusals, value(v.MessageExpression).(string))
		} else {
			refusals = append(refusals, v.Message)
		}
	}
	return refusals
}

// nullable makes an absent object CEL's null.
func nullable(o object) any {
	if o == nil {
		return nil
	}
	return o
}
