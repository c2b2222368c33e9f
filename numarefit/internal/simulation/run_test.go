package simulation

import "slices"

// run reports on a pod from its admission to its end.
func (sim *simulation) run(k *kubelet, o object, l life) {
	sim.start("kubelet of "+k.node+" runs "+o.pod.Name, func(a *actor) {
		l.started = true
		for {
			now := sim.server.now(o.pod.Name)
			switch {
			case a.over || sim.draining || now.uid() != o.uid():
				return
			case now.pod.DeletionTimestamp != nil:
				a.say("%s is gone", o.pod.Name)
				sim.server.store(o.pod.Name, nil, life{})
				return
			}
			switch fate := sim.fate(); {
			case fate < 5: // the report is lost, and made again
			case fate < 10: // it is carried out, and made again
				sim.rewrite(o.pod.Name, status(now.pod, l), l)
			default:
				sim.rewrite(o.pod.Name, status(now.pod, l), l)
				switch {
				case l.ended:
					return
				case k.astray(now) && sim.fate() >= 5: // else the plugin cannot read the record now
					a.say("%s may not start", o.pod.Name)
				default:
					k.ran[o.uid()] = true
					l = sim.next(l)
				}
			}
			a.pause(nil)
		}
	})
}

// next lets one thing happen to a running pod.
func (sim *simulation) next(l life) life {
	now := sim.server.version
	switch p := sim.IntN(100); {
	case p < 3:
		l.ended = true
		return l
	case l.ready == 0:
		l.ready = now
		if l.app.running() {
			l.app.to = now
		}
		return l
	case p < 8:
		// The sandbox is lost; the app goes on being shown for a while.
		l.ready = 0
		return l
	}
	if l.app.running() {
		return l
	}
	for i, r := range l.inits {
		switch {
		case r.running():
			return l.with(i, run{r.from, now})
		case r.from < l.ready:
			return l.with(i, run{from: now})
		}
	}
	l.app = run{from: now}
	return l
}

// stray asks for a refit that nobody may get: of a pod on which kubelet has reported, one that is gone, or one of
// another node.
func (sim *simulation) stray() {
	var wrong []object
	for _, name := range sim.server.names {
		for _, o := range sim.server.pods[name] {
			if o.node() != "" && (o.life.started || sim.server.now(name).version != o.version) {
				wrong = append(wrong, o)
			}
		}
	}
	if len(wrong) == 0 {
		return
	}
	o := wrong[sim.IntN(len(wrong))]
	node := o.node()
	if now := sim.server.now(o.pod.Name); now.uid() == o.uid() && !now.life.started || sim.IntN(4) == 0 {
		node = map[string]string{"n0": "n1", "n1": "n0"}[node]
	}
	q := sim.ask(questionOf(o, node, sim.IntN(o.containers()), sim.offered(node, 1)))
	sim.say("refit %d is asked for %s of version %d on %s", q.number, o.pod.Name, o.version, node)
}

// drain lets all that is under way come to its end: every call works, the watch shows everything. Then all pods
// are deleted, and nothing must be left of them.
func (sim *simulation) drain() {
	sim.say("no more happens, and all that was under way arrives")
	sim.draining = true
	sim.finish()
	for _, q := range sim.questions {
		if !q.done {
			sim.fail("refit %d is not answered", q.number)
		}
	}
	for _, name := range slices.Clone(sim.server.names) {
		if sim.server.now(name).pod != nil {
			sim.server.store(name, nil, life{})
		}
	}
	sim.finish()
	if n := len(sim.book.Pods()); n > 0 {
		sim.fail("all pods are deleted, the book holds %d", n)
	}
}

func (sim *simulation) finish() {
	for range 10_000 {
		behind := false
		for _, name := range sim.server.names {
			if sim.server.now(name).version > sim.at[name] {
				behind = true
				sim.show(name)
			}
		}
		if sim.failure != "" || len(sim.actors) == 0 && len(sim.flights) == 0 && !behind {
			break
		}
		sim.land()
		sim.turn()
	}
	sim.settle()
}
