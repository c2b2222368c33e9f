package simulation

import (
	"slices"
	"strconv"
	"strings"
)

// use is what is held of a device, or of all.
type use struct{ slots, memory int }

func (u use) plus(v use) use { return use{u.slots + v.slots, u.memory + v.memory} }
func (u use) most(v use) use { return use{max(u.slots, v.slots), max(u.memory, v.memory)} }
func (u use) within(v use) bool {
	return u.slots <= v.slots && u.memory <= v.memory
}

// share is one device in a record.
type share struct {
	uuid   string
	memory int
}

// read reads a record; ok is false when it is not readable for so many containers.
func read(text string, containers int) (entries [][]share, ok bool) {
	parts := strings.Split(text, ";")
	if len(parts) != containers+1 {
		return nil, false
	}
	for _, part := range parts[:containers] {
		var shares []share
		for _, one := range strings.Split(part, ":") {
			if one == "" {
				continue
			}
			fields := strings.Split(one, ",")
			memory, err := strconv.Atoi(fields[2])
			if err != nil {
				return nil, false
			}
			shares = append(shares, share{fields[0], memory})
		}
		entries = append(entries, shares)
	}
	return entries, true
}

// phases lists, for each phase of a pod, the positions of the containers alive in it.
func (o object) phases() [][]int {
	var all [][]int
	var long []int // sidecars, then apps too
	for i := range o.pod.Spec.InitContainers {
		if o.pod.Spec.InitContainers[i].RestartPolicy != nil {
			long = append(long, i)
		} else {
			all = append(all, append(slices.Clone(long), i))
		}
	}
	for i := range o.pod.Spec.Containers {
		long = append(long, len(o.pod.Spec.InitContainers)+i)
	}
	return append(all, long)
}

func (o object) containers() int { return len(o.pod.Spec.InitContainers) + len(o.pod.Spec.Containers) }

// charges is what a bound pod is charged: nothing for a record that cannot be read.
type charges struct {
	entries  [][]share // its record
	readable bool
	on       map[string]use // by UUID
	total    use            // of its namespace
}

// charged returns a pod with its charges.
func (o object) charged() object {
	text, recorded := o.pod.Annotations[record]
	if !recorded || o.node() == "" {
		return o
	}
	if o.entries, o.readable = read(text, o.containers()); !o.readable {
		return o
	}
	o.on = map[string]use{}
	for _, alive := range o.phases()[o.over():] {
		o.total = o.total.most(sum(o.entries, alive, ""))
		for _, uuid := range devices[o.node()] {
			o.on[uuid] = o.on[uuid].most(sum(o.entries, alive, uuid))
		}
	}
	return o
}

func sum(entries [][]share, alive []int, uuid string) use {
	var total use
	for _, position := range alive {
		for _, s := range entries[position] {
			if uuid == "" || uuid == s.uuid {
				total = total.plus(use{1, s.memory})
			}
		}
	}
	return total
}

// unreadable reports whether a live pod's record is unreadable.
func (o object) unreadable() bool {
	return o.node() != "" && !o.life.ended && o.record() != "" && !o.readable
}

// held returns what pods hold of a device.
func held(pods []object, uuid string) use {
	var total use
	for _, o := range pods {
		total = total.plus(o.on[uuid])
	}
	return total
}

// without returns the pods but one.
func without(pods []object, uid string) []object {
	return slices.DeleteFunc(slices.Clone(pods), func(o object) bool { return o.uid() == uid })
}

// fits reports whether the container at a position of a pod could hold allowed devices only, the shares that
// have one staying where they are, beside what others hold.
func (o object) fits(position int, allowed []string, others []object) bool {
	if !o.readable {
		return false
	}
	entries := slices.Clone(o.entries)
	entries[position] = slices.Clone(entries[position])
	var leaving []int
	for i, s := range entries[position] {
		if !slices.Contains(allowed, s.uuid) {
			leaving = append(leaving, i)
		}
	}
	return o.try(entries, position, leaving, allowed, others)
}

func (o object) try(entries [][]share, position int, leaving []int, allowed []string, others []object) bool {
	if len(leaving) == 0 {
		for _, uuid := range allowed {
			total := held(others, uuid)
			for _, alive := range o.phases()[o.over():] {
				if !total.plus(sum(entries, alive, uuid)).within(capacity) {
					return false
				}
			}
		}
		return true
	}
	for _, uuid := range allowed {
		if slices.ContainsFunc(entries[position], func(s share) bool { return s.uuid == uuid }) {
			continue
		}
		was := entries[position][leaving[0]].uuid
		entries[position][leaving[0]].uuid = uuid
		if o.try(entries, position, leaving[1:], allowed, others) {
			return true
		}
		entries[position][leaving[0]].uuid = was
	}
	return false
}
