package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/phasegpu/phasegpu/core/device"
	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/render"
	"github.com/phasegpu/phasegpu/extender/cmd/kubectl-phasegpu/internal/report"
)

// Orders are the names of what lists can be sorted by: the name, or a number, most first.
func Orders() []string {
	return []string{"name", "capacity", "reserved", "steady", "releasable", "free", "pods"}
}

// sort sorts lines, which are by name; those with the same number stay in their order.
func sort[T any](lines []T, by string, numbers func(*T) (Amounts, int)) {
	key := func(line *T) int64 {
		switch a, pods := numbers(line); by {
		case "capacity":
			return a.Capacity.MemoryMiB
		case "reserved":
			return a.Reserved.MemoryMiB
		case "steady":
			return a.Steady.MemoryMiB
		case "releasable":
			return a.Releasable.MemoryMiB
		case "free":
			return a.Free.MemoryMiB
		case "pods":
			return int64(pods)
		}
		return 0
	}
	slices.SortStableFunc(lines, func(x, y T) int { return cmp.Compare(key(&y), key(&x)) })
}

// Nodes lists the nodes with devices, or those of these names, by family.
func (t *Tally) Nodes(names []string, by string) Report {
	var r Report
	for _, v := range t.views(names) {
		for _, family := range familiesOf(v.now) {
			n := Node{Name: v.now.Name, Family: family, Notes: notes(v.now)}
			for i := range v.now.Devices {
				if d := &v.now.Devices[i]; d.Family == family {
					n.Devices++
					n.add(amounts(v.now, v.then, i))
					n.Notes = append(n.Notes, deviceNotes(d, v.now.Held[i], d.UUID+" ")...)
				}
			}
			n.Pods = holders(v.now, func(uuid string) bool { return family == "" || has(v.now, uuid, family) })
			r.Nodes = append(r.Nodes, n)
			if family == "" {
				continue // nothing to add up
			}
			r.sum(Sum{Family: family, Lines: 1, Devices: n.Devices, Pods: n.Pods, Amounts: n.Amounts})
		}
	}
	sort(r.Nodes, by, func(n *Node) (Amounts, int) { return n.Amounts, n.Pods })
	return r.sorted()
}

// Devices lists the devices of all nodes, or of those of these names, in the nodes' order.
func (t *Tally) Devices(names []string, by string) Report {
	var r Report
	for _, v := range t.views(names) {
		for i := range v.now.Devices {
			d := &v.now.Devices[i]
			line := Device{
				Node: v.now.Name, UUID: d.UUID, Index: d.Index, Family: d.Family, Model: d.Model,
				Amounts: amounts(v.now, v.then, i),
				Pods:    holders(v.now, func(uuid string) bool { return uuid == d.UUID }),
				Notes:   append(notes(v.now), deviceNotes(d, v.now.Held[i], "")...),
			}
			r.Devices = append(r.Devices, line)
			r.sum(Sum{Family: d.Family, Lines: 1, Devices: 1, Pods: line.Pods, Amounts: line.Amounts})
		}
	}
	sort(r.Devices, by, func(d *Device) (Amounts, int) { return d.Amounts, d.Pods })
	return r.sorted()
}

// Namespaces lists the namespaces that are charged, limited or that have pods waiting, or those of these names.
func (t *Tally) Namespaces(names []string, by string) Report {
	var r Report
	all := slices.Collect(maps.Keys(t.waiting))
	for _, n := range t.now.Namespaces() {
		all = append(all, n.Name)
	}
	slices.Sort(all)
	listed := slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		return len(names) > 0 && !slices.Contains(names, name)
	})
	pods := map[[2]string]int{} // by namespace and family
	for _, e := range t.now.Pods() {
		for _, charged := range e.Reserved.Totals {
			pods[[2]string{e.Namespace, charged.Family}]++
		}
	}
	for _, name := range listed {
		for _, n := range t.namespace(name) {
			n.Pods = pods[[2]string{name, n.Family}]
			r.Namespaces = append(r.Namespaces, n)
			r.sum(Sum{Family: n.Family, Lines: 1, Pods: n.Pods, Waiting: n.Waiting, Amounts: n.amounts()})
		}
	}
	sort(r.Namespaces, by, func(n *Namespace) (Amounts, int) { return n.amounts(), n.Pods })
	return r.sorted()
}

func (n *Namespace) amounts() Amounts {
	return Amounts{Reserved: n.Reserved, Steady: n.Steady, Releasable: n.Releasable}
}

// namespace returns the lines of one namespace, by family.
func (t *Tally) namespace(name string) []Namespace {
	byFamily := map[string]*Namespace{}
	line := func(family string) *Namespace {
		if byFamily[family] == nil {
			byFamily[family] = &Namespace{Name: name, Family: family, Limits: []Limit{}}
		}
		return byFamily[family]
	}
	for family, count := range t.waiting[name] {
		line(family).Waiting = count
	}
	if now := t.now.Namespace(name); now != nil {
		for i := range now.Used {
			n := line(now.Used[i].Family)
			n.Reserved = n.Reserved.Plus(report.Amount(now.Used[i].Amount()))
		}
		for _, use := range now.Usage() {
			n := line(use.Limit.Family)
			l := use.Limit
			n.Limits = append(n.Limits, Limit{use.Quota, l.Resource, use.Used, l.Max, l.Dimension})
		}
	}
	if then := t.then.Namespace(name); then != nil {
		for i := range then.Used {
			n := line(then.Used[i].Family)
			n.Steady = n.Steady.Plus(report.Amount(then.Used[i].Amount()))
		}
	}
	lines := make([]Namespace, 0, len(byFamily))
	for _, n := range byFamily {
		n.Releasable = n.Reserved.Minus(n.Steady)
		lines = append(lines, *n)
	}
	slices.SortFunc(lines, func(x, y Namespace) int { return strings.Compare(x.Family, y.Family) })
	return lines
}

// pair is a node's books now and then.
type pair struct{ now, then *ledger.View }

// views returns the nodes with devices, charges or a problem, or those of these names, by name.
func (t *Tally) views(names []string) []pair {
	var views []pair
	for _, v := range t.now.Nodes() {
		listed := slices.Contains(names, v.Name)
		if len(names) == 0 {
			listed = len(v.Devices)+len(v.Missing) > 0 || v.Unreadable != ""
		}
		if listed {
			views = append(views, pair{v, t.then.Node(v.Name)})
		}
	}
	return views
}

// Unknown returns those of the names that are no node, or, of namespaces, have nothing to do with devices.
func (t *Tally) Unknown(names []string, namespaces bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		if namespaces {
			return t.now.Namespace(name) != nil || t.waiting[name] != nil
		}
		return t.now.Node(name) != nil
	})
}

// familiesOf returns the families of a node's devices in their order, one without a name when it has none.
func familiesOf(v *ledger.View) []string {
	var words []string
	for i := range v.Devices {
		if !slices.Contains(words, v.Devices[i].Family) {
			words = append(words, v.Devices[i].Family)
		}
	}
	if len(words) == 0 {
		return []string{""}
	}
	return words
}

func has(v *ledger.View, uuid, family string) bool {
	return slices.ContainsFunc(v.Devices, func(d device.Device) bool { return d.UUID == uuid && d.Family == family })
}

// holders counts the pods that hold something of the devices.
func holders(v *ledger.View, of func(uuid string) bool) int {
	count := 0
	for _, e := range v.Pods {
		for _, h := range e.Reserved.Devices {
			if of(h.UUID) {
				count++
				break
			}
		}
	}
	return count
}

// notes returns the notes on a whole node.
func notes(v *ledger.View) []string {
	notes := []string{}
	switch {
	case !v.Known:
		notes = append(notes, "there is no such node, and pods are charged there")
	case v.Unreadable != "":
		notes = append(notes, "takes no new pods with devices: "+v.Unreadable)
	}
	if len(v.Missing) > 0 {
		var memory int64
		for _, u := range v.Missing {
			memory += u.MemoryMiB
		}
		devices := render.Count(int64(len(v.Missing)), "device")
		notes = append(notes, fmt.Sprintf("%d MiB are reserved on %s that it does not list", memory, devices))
	}
	return notes
}

// deviceNotes returns the notes on a device; name is put before each.
func deviceNotes(d *device.Device, held device.Usage, name string) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, name+fmt.Sprintf(format, args...)) }
	if !d.Healthy {
		note("unhealthy, or not advertised by kubelet")
	}
	if d.Cordoned {
		note("cordoned")
	}
	if d.Mode == device.MIG {
		note("in MIG mode")
	}
	if held.Exclusive {
		note("in exclusive use")
	}
	if over := held.MemoryMiB - d.Capacity.MemoryMiB; over > 0 {
		note("over its capacity by %d MiB", over)
	} else if !held.Within(d.Capacity) {
		note("over its capacity")
	}
	return notes
}

func (r *Report) sum(s Sum) {
	at := slices.IndexFunc(r.Sums, func(o Sum) bool { return o.Family == s.Family })
	if at < 0 {
		r.Sums = append(r.Sums, s)
		return
	}
	o := &r.Sums[at]
	o.Lines, o.Devices, o.Pods, o.Waiting = o.Lines+s.Lines, o.Devices+s.Devices, o.Pods+s.Pods, o.Waiting+s.Waiting
	o.add(s.Amounts)
}

// sorted returns the report with its sums by family.
func (r Report) sorted() Report {
	if r.Sums == nil {
		r.Sums = []Sum{}
	}
	slices.SortFunc(r.Sums, func(x, y Sum) int { return strings.Compare(x.Family, y.Family) })
	return r
}
