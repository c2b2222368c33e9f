package ledger

import "slices"

// SetNode takes a node's devices. What pods hold of a device that comes back is charged at once.
func (b *Book) SetNode(n Node) Delta {
	b.write.Lock()
	defer b.write.Unlock()
	s := b.nodes.slot(n.Name)
	v := &View{Name: n.Name}
	if s != nil {
		*v = *s.Load()
	}
	if v.Known && v.inventory == n.Unreadable && slices.Equal(v.Devices, n.Devices) {
		return Delta{Node: n.Name}
	}
	d := Delta{
		Node: n.Name, Changed: true,
		Released: !v.Known || v.inventory != "" && n.Unreadable == "" || offers(v.Devices, n.Devices),
		Raised:   v.Known && (v.inventory == "" && n.Unreadable != "" || offers(n.Devices, v.Devices)),
	}
	v.Known, v.inventory, v.Devices = true, n.Unreadable, slices.Clone(n.Devices)
	v.sum()
	b.advance(func(generation uint64) { b.publish(s, v, generation) })
	return d
}

// RemoveNode removes a node. What its pods hold stays in View.Missing until they are removed too.
func (b *Book) RemoveNode(name string) Delta {
	b.write.Lock()
	defer b.write.Unlock()
	s := b.nodes.slot(name)
	if s == nil || !s.Load().Known {
		return Delta{Node: name}
	}
	v := &View{}
	*v = *s.Load()
	v.Known, v.inventory, v.Devices = false, "", nil
	v.sum()
	b.advance(func(generation uint64) { b.publish(s, v, generation) })
	return Delta{Node: name, Changed: true, Raised: true}
}

// SetQuota takes a quota; one without limits limits nothing. Functions cannot be compared, so a quota with Selects
// always counts as changed: do not set it again when its spec is the same.
func (b *Book) SetQuota(q Quota) Delta {
	q.Limits = slices.Clone(q.Limits)
	return b.setQuota(q.Namespace, q.Name, &q)
}

// RemoveQuota removes a quota. Others of the namespace stay in force.
func (b *Book) RemoveQuota(namespace, name string) Delta { return b.setQuota(namespace, name, nil) }

func (b *Book) setQuota(namespace, name string, q *Quota) Delta {
	b.write.Lock()
	defer b.write.Unlock()
	s := b.namespaces.slot(namespace)
	n := &Namespace{Name: namespace}
	if s != nil {
		*n = *s.Load()
	}
	at := slices.IndexFunc(n.Quotas, func(o Quota) bool { return o.Name >= name })
	if at < 0 {
		at = len(n.Quotas)
	}
	var before *Quota
	if at < len(n.Quotas) && n.Quotas[at].Name == name {
		before = &n.Quotas[at]
	}
	d := Delta{Namespace: namespace}
	if before == nil && q == nil || before != nil && q != nil && before.same(q) {
		return d
	}
	d.Changed, d.Released, d.Raised = true, before.frees(q), q.frees(before)
	n.Quotas = slices.Clone(n.Quotas)
	if before != nil {
		n.Quotas = slices.Delete(n.Quotas, at, at+1)
	}
	if q != nil {
		n.Quotas = slices.Insert(n.Quotas, at, *q)
	}
	b.advance(func(uint64) { b.publishNamespace(s, n) })
	return d
}

// advance runs a change and makes it the next generation.
func (b *Book) advance(change func(generation uint64)) {
	generation := b.generation.Load() + 1
	change(generation)
	b.generation.Store(generation)
}
