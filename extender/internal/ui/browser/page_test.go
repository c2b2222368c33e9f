//go:build page

package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// TestPage runs everything in one browser: to start one takes longer than most of what is tried.
func TestPage(t *testing.T) {
	browser := chromium(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{
		{"numbers", numbers}, {"phases", phases}, {"namespaces and gates", namespacesAndGates}, {"search", search},
		{"keyboard", keyboard},
		{"read out", readOut}, {"light and dark", lightAndDark}, {"phone", phone}, {"refresh", refresh},
		{"unchanged", unchanged},
		{"hostile text", hostileText}, {"troubles", troubles}, {"5,000 nodes", fiveThousand},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, browser) })
	}
}

// The stories that the demo plays, as books: what each device is read out as, step by step. Numbers in the
// names are the demo's.
func numbers(t *testing.T, browser context.Context) {
	const card = "Device 0, GPU-n-0000: "
	load, cache, train := initc(20480, 0), sidecar(2048, 0), app(10240, 0)
	for _, story := range []struct {
		name  string
		cards []int64
		steps []func(*scene)
		want  [][]string
	}{
		{
			"2 and 3: placed by its peak, and handed on", []int64{24576},
			[]func(*scene){
				func(s *scene) { s.book.Observe(pod("ns", "first", "n", 0, load, train)) },
				func(s *scene) { s.book.Observe(pod("ns", "first", "n", 1, load, train)) },
				func(s *scene) { s.book.Observe(pod("ns", "second", "n", 0, app(12288, 0))) },
			},
			[][]string{
				{card + "20 of 24 GiB reserved, 10 GiB steady, 10 GiB until inits end, 4 GiB free"},
				{card + "10 of 24 GiB reserved, 10 GiB steady, 14 GiB free"},
				{card + "22 of 24 GiB reserved, 22 GiB steady, 2 GiB free"},
			},
		},
		{
			"4: a pod that has ended keeps none", []int64{24576},
			[]func(*scene){
				func(s *scene) { s.book.Observe(pod("ns", "p", "n", 0, load, train)) },
				func(s *scene) { s.book.Observe(pod("ns", "p", "n", phase.None, load, train)) },
			},
			[][]string{
				{card + "20 of 24 GiB reserved, 10 GiB steady, 10 GiB until inits end, 4 GiB free"},
				{card + "0 of 24 GiB reserved, 0 MiB steady, 24 GiB free"},
			},
		},
		{
			"5: a sidecar counts beside the app", []int64{24576},
			[]func(*scene){func(s *scene) { s.book.Observe(pod("ns", "p", "n", 0, sidecar(10240, 0), train)) }},
			[][]string{{card + "20 of 24 GiB reserved, 20 GiB steady, 4 GiB free"}},
		},
		{
			"6: where a sidecar is declared decides", []int64{24576, 24576},
			[]func(*scene){func(s *scene) {
				s.book.Observe(pod("ns", "cache-first", "n", 0, cache, load, train))
				s.book.Observe(pod("ns", "load-first", "n", 0, initc(20480, 1), sidecar(2048, 1), app(10240, 1)))
			}},
			[][]string{{
				card + "22 of 24 GiB reserved, 12 GiB steady, 10 GiB until inits end, 2 GiB free",
				"Device 1, GPU-n-0001: 20 of 24 GiB reserved, 12 GiB steady, 8 GiB until inits end, 4 GiB free",
			}},
		},
		{
			"9: charged again by a rerun, beyond the card", []int64{24576},
			[]func(*scene){
				func(s *scene) {
					s.book.Observe(pod("ns", "again", "n", 1, load, train))
					s.book.Observe(pod("ns", "other", "n", 0, app(12288, 0)))
				},
				func(s *scene) { s.book.Observe(pod("ns", "again", "n", 0, load, train)) },
			},
			[][]string{
				{card + "22 of 24 GiB reserved, 22 GiB steady, 2 GiB free"},
				{card + "32 of 24 GiB reserved, 22 GiB steady, 10 GiB until inits end, 8 GiB over capacity"},
			},
		},
		{
			"10: each device its own maximum", []int64{24576, 24576},
			[]func(*scene){
				func(s *scene) { s.book.Observe(pod("ns", "p", "n", 0, initc(16384, 0), app(8192, 1))) },
				func(s *scene) { s.book.Observe(pod("ns", "p", "n", 1, initc(16384, 0), app(8192, 1))) },
			},
			[][]string{
				{
					card + "16 of 24 GiB reserved, 0 MiB steady, 16 GiB until inits end, 8 GiB free",
					"Device 1, GPU-n-0001: 8 of 24 GiB reserved, 8 GiB steady, 16 GiB free",
				},
				{
					card + "0 of 24 GiB reserved, 0 MiB steady, 24 GiB free",
					"Device 1, GPU-n-0001: 8 of 24 GiB reserved, 8 GiB steady, 16 GiB free",
				},
			},
		},
	} {
		t.Run(story.name, func(t *testing.T) {
			s := newScene(t)
			s.node("n", story.cards...)
			p := newTab(t, browser, 1200, 800)
			p.open(s, "")
			for i, step := range story.steps {
				step(s)
				p.fresh(s)
				if diff := cmp.Diff(story.want[i], p.labels("#list")); diff != "" {
					t.Errorf("step %d: %s", i, diff)
				}
			}
		})
	}
}

// A pod's phases: what each uses, which are over, and who holds it.
func phases(t *testing.T, browser context.Context) {
	s := newScene(t)
	s.node("n", 24576, 24576)
	containers := []container{initc(16384, 0), sidecar(2048, 1), initc(4096, 0), app(10240, 0).with(40)}
	s.book.Observe(pod("ns", "p", "n", 0, containers...))
	p := newTab(t, browser, 1200, 800)
	p.open(s, "#view=pods")
	for first, want := range []string{
		"16 GiB init 0, charged from here on|6 GiB init 2, to come|12 GiB steady, to come|holds 18 GiB then 12 GiB",
		"16 GiB init 0, given back|6 GiB init 2, charged from here on|12 GiB steady, to come|holds 12 GiB",
		"16 GiB init 0, given back|6 GiB init 2, given back|12 GiB steady, charged from here on|holds 12 GiB",
	} {
		s.book.Observe(pod("ns", "p", "n", first, containers...))
		p.fresh(s)
		got := get[string](p, `[...document.querySelectorAll(".step .head")].map((e) => e.textContent).join("|")`)
		got += "|" + strings.TrimSpace(get[string](p,
			`[...document.querySelector(".holds").children].map((e) => e.textContent).join(" ")`))
		if got != want {
			t.Errorf("from phase %d on: %s, want %s", first, got, want)
		}
	}
	p.click(".pod .toggle")
	p.until(`document.querySelector("td")`)
	got := get[[]string](p, `[...document.querySelectorAll("tr")].map((r) => [...r.children].map((c) => c.textContent).join("|"))`)
	want := []string{
		"|init 0|init 2|steady|holds now",
		"0  init, 1 device|16 GiB|||",
		"1  sidecar, 1 device||2 GiB|2 GiB|",
		"2  init, 1 device||4 GiB||",
		"3  app, 1 device|||10 GiB, 40 %|",
		"GPU-n-0000|16 GiB|4 GiB|10 GiB, 40 %|10 GiB, 40 %",
		"GPU-n-0001|–|2 GiB|2 GiB|2 GiB",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func namespacesAndGates(t *testing.T, browser context.Context) {
	s := cluster(t)
	p := newTab(t, browser, 1200, 800)
	p.open(s, "#view=namespaces")
	want := []string{
		"Quota gpu, limits.nvidia.com/gpumem: 36 of 40 GiB used",
		"Quota gpu, limits.nvidia.com/gpumem: 46 of 64 GiB used",
		"Quota gpu, limits.nvidia.com/gpumem: 48 of 48 GiB used",
		"Quota gpu-cores, limits.nvidia.com/gpucores: 110 of 200 % used",
	}
	want[0] = "Quota gpu, limits.nvidia.com/gpumem: 42 of 40 GiB used" // 20 + 10 + 12
	if diff := cmp.Diff(want, p.labels("#list")); diff != "" {
		t.Error(diff)
	}
	if got := p.text("#list .card:nth-child(3)"); !strings.HasPrefix(got,
		"speechNVIDIA: 46 GiB, 14 GiB of it until inits end, 4 slots, 80 % cores") {
		t.Errorf("speech: %s", got)
	}
	p.click(`#lists a[data-view=gates]`)
	p.until(`document.querySelector("#list").textContent.includes("kubelet has not reported on batch/nightly-2718")`)
	if got := p.text("#list"); !strings.Contains(got, "2 pods waiting") || !strings.Contains(got, "shut for ") {
		t.Errorf("gates: %s", got)
	}
}

func search(t *testing.T, browser context.Context) {
	s := cluster(t)
	p := newTab(t, browser, 1200, 800)
	p.open(s, "")
	for _, c := range []struct{ typed, found, first string }{
		{"gpu-c", "1 node, 1 pod, 0 namespaces, 0 gates", "gpu-c"},
		{"GPU-gpu-a-0003", "1 node, 2 pods, 0 namespaces, 0 gates", "gpu-a"},
		{"vision", "1 node, 2 pods, 1 namespace, 0 gates", "gpu-a"},
		{"batch/rerun", "1 node, 1 pod, 0 namespaces, 0 gates", "gpu-b"},
	} {
		p.find(c.typed)
		p.until(fmt.Sprintf("document.querySelector('#found').textContent === %q", c.found))
		if got := p.text("#list .toggle"); got != c.first {
			t.Errorf("%q finds %s first, want %s", c.typed, got, c.first)
		}
	}
	p.find("no such thing")
	p.until(`document.querySelector("#empty").textContent === "No node matches."`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`document.querySelectorAll("#list .card").length === 3`)
	p.run(`$("show").value = "attention"; $("show").dispatchEvent(new Event("change"))`)
	p.until(`document.querySelectorAll("#list .card").length === 2`) // gpu-a is well
	// An address says what is shown.
	p.do(chromedp.Reload())
	p.until(`document.querySelectorAll("#list .card").length === 2`)
	p.do(chromedp.NavigateBack())
	p.until(`document.querySelectorAll("#list .card").length === 3`)
}

func keyboard(t *testing.T, browser context.Context) {
	s := cluster(t)
	p := newTab(t, browser, 1200, 800)
	p.open(s, "#view=pods")
	active := func() string {
		return get[string](p, `document.activeElement.id || document.activeElement.dataset.view || document.activeElement.textContent`)
	}
	p.press("/")
	if got := active(); got != "find" || get[string](p, `document.querySelector("#find").value`) != "" {
		t.Errorf("/ goes to %s", got)
	}
	for _, key := range []string{"t", "r", "/"} { // there it is a character
		p.press(key)
	}
	if got := get[string](p, `document.querySelector("#find").value`); got != "tr/" {
		t.Errorf("typed %q", got)
	}
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`document.querySelectorAll(".pod").length === 8`)
	p.run(`document.activeElement.blur(); document.querySelector("#skip").focus()`)
	var order []string
	for range 11 {
		p.do(chromedp.KeyEvent(kb.Tab))
		order = append(order, active())
		if !get[bool](p, `document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			t.Errorf("the focus on %s cannot be seen", active())
		}
	}
	if diff := cmp.Diff("find show pause theme How to read this nodes pods namespaces gates batch/nightly-2718 batch/rerun-q8", strings.Join(order, " ")); diff != "" {
		t.Error(diff)
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.activeElement.ariaExpanded === "true" && document.querySelectorAll(".pod")[1].querySelector("table").checkVisibility()`)
	p.do(chromedp.KeyEvent(" "))
	p.until(`document.activeElement.ariaExpanded === "false"`)
	p.run(`document.querySelector("#skip").focus()`)
	p.do(chromedp.KeyEvent(kb.Enter))
	if got := active(); got != "main" {
		t.Errorf("the skip link goes to %s", got)
	}
}

// Whatever changes around it, what a person has unfolded, focused and scrolled to stays.
func refresh(t *testing.T, browser context.Context) {
	s := cluster(t)
	p := newTab(t, browser, 1000, 300)
	p.open(s, "#view=pods")
	p.run(`
		window.mine = [...document.querySelectorAll(".pod")].find((e) => e.textContent.includes("serving-7c9f"));
		const toggle = mine.querySelector(".toggle");
		toggle.click();
		toggle.focus();
		mine.scrollIntoView();
		window.before = mine.getBoundingClientRect().top;`)
	if get[float64](p, `scrollY`) == 0 {
		t.Fatal("there is nothing to scroll")
	}
	s.book.Observe(pod("aaa", "new", "gpu-c", 0, app(1024, 0)))
	s.book.Remove("batch-rerun-q8")
	s.book.Observe(pod("vision", "labeller", "gpu-a", phase.None, sidecar(2048, 3), app(6144, 3)))
	s.book.Observe(pod("zzz", "new", "gpu-c", 0, app(1024, 0)))
	p.fresh(s)
	p.until(`document.querySelector("#list").textContent.includes("zzz/new")`)
	for what, expression := range map[string]string{
		"the element": `mine.isConnected`,
		"focus":       `mine.contains(document.activeElement)`,
		"unfolded":    `mine.querySelector("table").checkVisibility()`,
		"its place":   `Math.abs(mine.getBoundingClientRect().top - before) < 2`,
	} {
		if !get[bool](p, expression) {
			t.Errorf("a refresh does not keep %s", what)
		}
	}
	if got := get[string](p, `[...document.querySelectorAll(".pod .toggle")].map((e) => e.textContent).join(" ")`); got !=
		"aaa/new batch/nightly-2718 batch/took-the-room research/whole-card speech/serving-7c9f speech/serving-x2lk vision/train-0 zzz/new" {
		t.Errorf("order: %s", got)
	}
	// What is focused goes: the list has the focus then, not nothing.
	s.book.Remove("speech-serving-7c9f")
	p.until(`!mine.isConnected`)
	if got := get[string](p, `document.activeElement.id`); got != "main" {
		t.Errorf("the focus is on %q", got)
	}
	// Nothing changes while it is paused.
	p.click("#pause")
	shown := get[int](p, `current.generation`)
	s.book.Remove("zzz-new")
	p.click("#pause")
	p.until(fmt.Sprintf(`current.generation > %d && !document.querySelector("#list").textContent.includes("zzz/new")`,
		shown))
}

// While nothing changes, nothing but a question and its short answer is sent, and the document stays as it is.
func unchanged(t *testing.T, browser context.Context) {
	s := cluster(t)
	p := newTab(t, browser, 1200, 800)
	p.open(s, "")
	p.run(`window.changes = 0; new MutationObserver((all) => { changes += all.length }).observe(document.querySelector("#list"), { subtree: true, childList: true, attributes: true, characterData: true })`)
	before := locked(s, func() int { return s.answers[304] })
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for locked(s, func() int { return s.answers[304] }) < before+2 {
		select {
		case <-p.ctx.Done():
			t.Fatal("the page asks no more")
		case <-ticker.C:
		}
	}
	if n := locked(s, func() int { return s.answers[200] }); n != 1 {
		t.Errorf("%d whole answers for books that have not changed", n)
	}
	s.quota("elsewhere", "q", "limits.nvidia.com/gpumem", ledger.Memory,
		1024) // a generation that the list does not show
	p.fresh(s)
	p.until(`document.querySelector("#lists").textContent.includes("Namespaces 5")`)
	if n := get[int](p, `changes`); n != 0 {
		t.Errorf("%d changes of the list for nothing", n)
	}
}

func hostileText(t *testing.T, browser context.Context) {
	s := newScene(t)
	const evil = `<img src=x onerror="window.owned=1"><script>window.owned=1</script>&lt;`
	s.book.SetNode(ledger.Node{Name: evil, Unreadable: evil})
	s.book.Observe(ledger.Pod{UID: evil, Namespace: "ns", Name: evil, Node: evil, Unreadable: evil,
		Classes: phase.Pod{phase.App}})
	s.standby = errors.New(evil)
	p := newTab(t, browser, 1200, 800)
	p.open(s, "#q=%3Cimg&view=nodes")
	if got := p.text("#list .toggle"); got != evil {
		t.Errorf("the name is shown as %s", got)
	}
	for _, where := range []string{"#standby", "#list .problem", "#list .pod"} {
		if got := p.text(where); !strings.Contains(got, evil) {
			t.Errorf("%s shows %s", where, got)
		}
	}
	if get[bool](p, `"owned" in window || document.images.length > 0 || document.scripts.length !== 1`) {
		t.Error("text has become markup")
	}
}

func troubles(t *testing.T, browser context.Context) {
	s := cluster(t)
	p := newTab(t, browser, 1200, 800)
	s.set(func() { s.unready, s.standby = errors.New("the watches have not synced"), errStandby })
	p.open(s, "")
	if got := p.text("#unready"); !strings.Contains(got, "incomplete: the watches have not synced") {
		t.Errorf("unready: %s", got)
	}
	if got := p.text("#standby"); !strings.Contains(got, "binds nothing: "+errStandby.Error()) {
		t.Errorf("standby: %s", got)
	}
	s.set(func() { s.unready, s.standby = nil, nil })
	p.until(`document.querySelector("#unready").hidden && document.querySelector("#standby").hidden`)

	s.set(func() { s.down = true })
	p.until(`!document.querySelector("#lost").hidden`)
	clock := get[string](p, `clock(good)`)
	if got := p.text("#lost"); !strings.Contains(got, "503: shutting down") ||
		!strings.Contains(got, "What is shown is of "+clock) {
		t.Errorf("503: %s", got)
	}
	if len(p.labels("#list")) != 8 {
		t.Error("the last good data are gone")
	}
	s.set(func() { s.down = false })
	p.until(`document.querySelector("#lost").hidden`)
	s.server.CloseClientConnections()
	s.server.Close()
	p.until(`!document.querySelector("#lost").hidden`)
	p.forgive() // the browser itself says that it could not connect
}

func fiveThousand(t *testing.T, browser context.Context) {
	s := large(t)
	p := newTab(t, browser, 1200, 800)
	began := time.Now()
	p.open(s, "")
	p.until(`document.querySelectorAll(".device").length === 160`)
	t.Logf("shown after %v", time.Since(began).Round(time.Millisecond))
	if got := p.text("#lists"); got != "Nodes 5,000 Pods 40,000 Namespaces 40 Gates 0" {
		t.Error(got)
	}
	if got := p.text("#totals"); !strings.HasPrefix(got, "NVIDIA, 40,000 devices") ||
		!strings.Contains(got, "of 3,125 TiB reserved") {
		t.Error(got)
	}
	if n := get[int](p, `document.querySelectorAll("*").length`); n > 20000 {
		t.Errorf("%d elements", n)
	}
	began = time.Now()
	p.click("#next")
	p.until(`document.querySelector("#list .toggle").textContent === "node-0020"`)
	t.Logf("next page after %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	p.find("worker-4321-7")
	p.until(`document.querySelectorAll("#list .card").length === 1 && document.querySelector("#list .toggle").textContent === "node-4321"`)
	t.Logf("a pod found after %v", time.Since(began).Round(time.Millisecond))
	p.click(`#lists a[data-view=pods]`)
	p.find(kb.Escape)
	p.until(`document.querySelectorAll(".pod").length === 50 && document.querySelector("#page").textContent === "Page 1 of 800"`)
}
