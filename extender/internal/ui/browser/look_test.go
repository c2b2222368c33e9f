//go:build page

package browser

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"github.com/phasegpu/phasegpu/core/ledger"
	"github.com/phasegpu/phasegpu/core/phase"
)

// What a screen reader gets: landmarks, and a name for whatever can be operated.
func readOut(t *testing.T, browser context.Context) {
	p := newTab(t, browser, 1200, 800)
	p.open(cluster(t), "")
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	value := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		role := value(n.Role)
		if n.Ignored {
			continue
		}
		roles[role]++
		switch role {
		case "button", "link", "searchbox", "combobox", "image", "navigation", "img":
			if value(n.Name) == "" {
				t.Errorf("a %s without a name", role)
			}
		}
	}
	for role, want := range map[string]int{"banner": 1, "main": 1, "search": 1, "navigation": 1, "heading": 7,
		"searchbox": 1} {
		if roles[role] != want {
			t.Errorf("%d × %s, want %d of %v", roles[role], role, want, roles)
		}
	}
	if n := roles["image"] + roles["img"]; n != 9 { // the cluster and 8 cards
		t.Errorf("%d bars are read out, want 9", n)
	}
	if n := get[int](p, `document.querySelectorAll("[id]").length - new Set([...document.querySelectorAll("[id]")].map((e) => e.id)).size`); n != 0 {
		t.Errorf("%d ids are not unique", n)
	}
}

// contrasts lists text whose contrast with what is behind it is below 4.5 (WCAG 2.2, AA).
const contrasts = `(() => {
	const rgb = (c) => { const x = new OffscreenCanvas(1, 1).getContext("2d"); x.fillStyle = c; x.fillRect(0, 0, 1, 1); return [...x.getImageData(0, 0, 1, 1).data]; };
	const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
	const low = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.disabled || e.closest("template,script,style")) continue;
		const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => b - a);
		if ((a + .05) / (b + .05) < 4.5) low.add(e.className + ": " + e.textContent.slice(0, 30) + " " + ((a + .05) / (b + .05)).toFixed(2));
	}
	return [...low];
})()`

func lightAndDark(t *testing.T, browser context.Context) {
	p := newTab(t, browser, 1200, 800)
	paper := func() string { return get[string](p, `getComputedStyle(document.body).backgroundColor`) }
	const light, dark = "rgb(246, 246, 243)", "rgb(19, 22, 25)"
	s := cluster(t)
	s.set(func() { s.standby = errStandby })
	p.prefers("light")
	p.open(s, "")
	for _, view := range []string{"nodes", "pods", "namespaces", "gates"} {
		p.click(`#lists a[data-view=` + view + `]`)
		p.until(`current.view === "` + view + `"`)
		for theme, want := range map[string]string{"light": light, "dark": dark} {
			p.prefers(theme)
			if got := paper(); got != want {
				t.Errorf("who prefers %s gets %s", theme, got)
			}
			for _, low := range get[[]string](p, contrasts) {
				t.Errorf("%s, %s: low contrast: %s", view, theme, low)
			}
		}
	}
	p.prefers("light")
	for _, want := range []string{light, dark, light} { // light, dark, auto
		p.click("#theme")
		if got := paper(); got != want {
			t.Errorf("%s: %s, want %s", p.text("#theme"), got, want)
		}
	}
	p.click("#theme")
	p.click("#theme")
	p.do(chromedp.Reload())
	p.until(`document.querySelector("#foot").textContent`)
	if got := paper(); got != dark || p.text("#theme") != "Theme: dark" {
		t.Errorf("after a reload: %s, %s", p.text("#theme"), got)
	}
	p.click("#theme")
}

func phone(t *testing.T, browser context.Context) {
	p := newTab(t, browser, 360, 740)
	s := cluster(t)
	s.book.Observe(ledger.Pod{UID: "long", Namespace: strings.Repeat("n", 63), Name: strings.Repeat("p", 250),
		Node: "gpu-c", Unreadable: strings.Repeat("x", 300), Classes: phase.Pod{phase.App}})
	p.open(s, "")
	for _, view := range []string{"nodes", "pods", "namespaces", "gates"} {
		p.run(`location.hash = "view=` + view + `"`)
		p.until(`current.view === "` + view + `"`)
		p.run(`for (const b of document.querySelectorAll(".toggle[aria-expanded=false]:enabled")) b.click()`)
		if wide := get[int](p, `document.documentElement.scrollWidth`); wide > 360 {
			t.Errorf("%s is %d wide: %v", view, wide, get[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > 361 && !e.closest(".timeline,.scroll")).map((e) => e.tagName + " " + e.id + " " + e.className + " " + e.textContent.slice(0, 20)).slice(0, 5)`))
		}
	}
}
