package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/phasegpu/phasegpu/core/wire"
	"github.com/phasegpu/phasegpu/gen/kube"
	"github.com/phasegpu/phasegpu/gen/refit"
	rt "github.com/phasegpu/phasegpu/gen/refit/refittest"
)

// kubelet admits the pods of its node one after another, as the device plugin lets it.
type kubelet struct {
	node  string
	known map[string]bool           // by UID: pods that it has admitted or rejected
	gave  map[string]map[int]served // by UID and position
	ran   map[string]bool           // by UID: pods of which a container has been started
}

// served is what the device plugin gave to a container.
type served struct {
	devices []string
	settled bool // no refit of the pod was under way any more
}

func (sim *simulation) kubelet(node string) {
	k := &kubelet{node: node, known: map[string]bool{}, gave: map[string]map[int]served{}, ran: map[string]bool{}}
	sim.kubelets[node] = k
	pending := func(o object) bool { return o.node() == node && !k.known[o.uid()] && !o.life.started && !o.life.ended }
	sim.start("kubelet of "+node, func(a *actor) {
		for {
			a.pause(func() bool {
				return sim.draining || slices.ContainsFunc(sim.server.on(node, sim.server.version), pending)
			})
			if sim.draining || a.over {
				return
			}
			if o, ok := sim.some(pending); ok {
				k.known[o.uid()] = true
				sim.admit(a, k, o)
			}
		}
	})
}

// admit lets the device plugin allocate for a pod's containers in order, and then runs it or reports it failed.
func (sim *simulation) admit(a *actor, k *kubelet, o object) {
	if o.pod.DeletionTimestamp != nil {
		sim.run(k, o, newLife(o.pod))
		return
	}
	for position := range o.containers() {
		asked := kube.Container(&o.pod.Spec, position).Resources.Limits["nvidia.com/gpu"]
		if asked.IsZero() {
			continue
		}
		if err := sim.allocate(a, k, o, position, int(asked.Value())); err != nil {
			a.say("rejects %s: %v", o.pod.Name, err)
			l := newLife(o.pod)
			l.ended = true
			sim.run(k, o, l)
			return
		}
	}
	a.say("admits %s", o.pod.Name)
	sim.run(k, o, newLife(o.pod))
}

// allocate is the device plugin's part in one container.
func (sim *simulation) allocate(a *actor, k *kubelet, o object, position, count int) error {
	allowed := sim.offered(k.node, count)
	now, err := sim.recorded(a, k, o.uid(), position)
	if err != nil {
		return err
	}
	strict := o.pod.Annotations[wire.NUMAAlignment] == "strict"
	if !within(now, allowed) && aligned(o.pod) {
		q := sim.ask(questionOf(o, k.node, position, allowed))
		if sim.IntN(4) == 0 { // somebody asks twice
			other := allowed
			if sim.IntN(2) == 0 {
				other = sim.offered(k.node, count)
			}
			sim.ask(questionOf(o, k.node, position, other))
		}
		a.pause(func() bool { return q.done || q.ctx.Err() != nil })
		switch {
		case a.over:
			return errHalted
		case q.done && q.outcome.Answer != nil:
		case strict && q.done:
			return fmt.Errorf("strict: %sim", q.outcome.Refusal)
		case strict:
			return errors.New("strict: no answer in time")
		}
	}
	if now, err = sim.recorded(a, k, o.uid(), position); err != nil {
		return err
	}
	if strict && !within(now, allowed) {
		return fmt.Errorf("strict: kubelet decided on %v, recorded is %v", allowed, now)
	}
	if k.gave[o.uid()] == nil {
		k.gave[o.uid()] = map[int]served{}
	}
	k.gave[o.uid()][position] = served{now, !sim.asking(o.uid())}
	a.say("container %d of %s gets %v", position, o.pod.Name, now)
	return nil
}

// recorded reads what is recorded for a container. It is an error when the call may be for another pod.
func (sim *simulation) recorded(a *actor, k *kubelet, uid string, position int) (devices []string, err error) {
	var here []object
	if err := a.read(context.Background(), "list pods", func() error {
		here = sim.server.on(k.node,
			sim.server.version)
		return nil
	}); err != nil {
		return nil, err
	}
	err = errors.New("the pod has no record that can be read")
	for _, o := range here {
		if o.readable && o.uid() == uid {
			if !o.holds(position) {
				return nil, errors.New("the container has no devices in the record")
			}
			devices, err = devicesOf(o.entries[position]), nil
			for _, other := range without(here, uid) {
				if other.inGate() && other.record() != o.record() {
					return nil, fmt.Errorf("it may be for pod %s", other.pod.Name)
				}
			}
		}
	}
	return devices, err
}

// offered are the devices on which kubelet's Topology Manager lets a container be.
func (sim *simulation) offered(node string, count int) []string {
	all := slices.Clone(devices[node])
	sim.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), count+sim.IntN(4)/2)]
}

func questionOf(o object, node string, position int, allowed []string) *refit.Request {
	q := rt.Request(o.pod, position, allowed...)
	q.Node = node
	return q
}

// asking reports whether a refit of a pod may yet write.
func (sim *simulation) asking(uid string) bool {
	return slices.ContainsFunc(sim.questions, func(q *question) bool {
		return q.Pod.UID == uid && (!q.done || open(&q.outcome))
	})
}

// astray reports whether a pod's record names other devices for a container than the device plugin gave it.
func (k *kubelet) astray(o object) bool {
	for position, given := range k.gave[o.uid()] {
		if !o.readable || !slices.Equal(given.devices, devicesOf(o.entries[position])) {
			return true
		}
	}
	return false
}

// follow checks that a refit moves nothing from under a container. One of which nobody waited for the answer may
// arrive when the container has its devices; the device plugin then does not let it start. Only if it has started
// already, before kubelet's first report, nobody notices.
func (sim *simulation) follow(q *question, after object) {
	k := sim.kubelets[q.Node]
	given, ok := k.gave[q.Pod.UID][q.Container.Position]
	switch {
	case !ok || !k.astray(after):
	case given.settled:
		sim.fail("refit %d moves a container that has got %v", q.number, given.devices)
	case k.ran[after.uid()]:
		sim.count("moved too late, under a container")
	default:
		sim.count("moved late, the container does not start")
	}
}

func within(devices, allowed []string) bool {
	return !slices.ContainsFunc(devices, func(uuid string) bool { return !slices.Contains(allowed, uuid) })
}

func aligned(pod *corev1.Pod) bool { return pod.Annotations[wire.NUMAAlignment] != "" }
