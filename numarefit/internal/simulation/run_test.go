package simulation

import "slices"

// run reports on a pod from its admission to its end.
func (w *world) run(k *kubelet, o object, l life) {
	w.start("kubelet of "+k.node+" runs "+o.pod.Name, func(a *actor) {
		l.started = true
		for {
			now := w.server.now(o.pod.Name)
			switch {
			case a.over || w.draining || now.uid() != o.uid():
				return
			case now.pod.DeletionTimestamp != nil:
				a.say("%s is gone", o.pod.Name)
				w.write(o.pod.Name, nil, life{})
				return
			}
			switch fate := w.fate(); {
			case fate < 5: // the report is lost, and made again
			case fate < 10: // it is carried out, and made again
				w.rewrite(o.pod.Name, status(now.pod, l), l)
			default:
				w.rewrite(o.pod.Name, status(now.pod, l), l)
				switch {
				case l.ended:
					return
				case k.astray(now) && w.fate() >= 5: // else the plugin cannot read the record now
					a.say("%s may not start", o.pod.Name)
				default:
					k.ran[o.uid()] = true
					l = w.next(l)
				}
			}
			a.pause(nil)
		}
	})
}

// next lets one thing happen to a running pod.
func (w *world) next(l life) life {
	now := w.server.version
	switch p := w.IntN(100); {
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
func (w *world) stray() {
	var wrong []object
	for _, name := range w.server.names {
		for _, o := range w.server.pods[name] {
			if o.node() != "" && (o.life.started || w.server.now(name).version != o.version) {
				wrong = append(wrong, o)
			}
		}
	}
	if len(wrong) == 0 {
		return
	}
	o := wrong[w.IntN(len(wrong))]
	node := o.node()
	if now := w.server.now(o.pod.Name); now.uid() == o.uid() && !now.life.started || w.IntN(4) == 0 {
		node = map[string]string{"n0": "n1", "n1": "n0"}[node]
	}
	q := w.ask(questionOf(o, node, w.IntN(o.containers()), w.offered(node, 1)))
	w.say("refit %d is asked for %s of version %d on %s", q.number, o.pod.Name, o.version, node)
}

// drain lets all that is under way come to its end: every call works, the watch shows everything. Then all pods
// are deleted, and nothing must be left of them.
func (w *world) drain() {
	w.say("no more happens, and all that was under way arrives")
	w.draining = true
	w.finish()
	for _, q := range w.questions {
		if !q.done {
			w.fail("refit %d is not answered", q.number)
		}
	}
	for _, name := range slices.Clone(w.server.names) {
		if w.server.now(name).pod != nil {
			w.write(name, nil, life{})
		}
	}
	w.finish()
	if n := len(w.book.Pods()); n > 0 {
		w.fail("all pods are deleted, the book holds %d", n)
	}
}

func (w *world) finish() {
	for range 10_000 {
		behind := false
		for _, name := range w.server.names {
			if w.server.now(name).version > w.at[name] {
				behind = true
				w.show(name)
			}
		}
		if w.failure != "" || len(w.actors) == 0 && len(w.flights) == 0 && !behind {
			break
		}
		w.land()
		w.turn()
	}
	w.settle()
}
