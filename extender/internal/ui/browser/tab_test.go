//go:build page

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long anything may take on a machine that has other things to do.
const patience = 2 * time.Minute

// chromium starts the browser that all tests share.
func chromium(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, // CI is root, and the only page is our own
		chromedp.Flag("font-render-hinting", "none"),
	)
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("Chromium does not start (Debian's package is called chromium): %v", err)
	}
	return ctx
}

// tab is a tab of the browser. What its console says of errors fails the test at its end.
type tab struct {
	*testing.T
	ctx      context.Context
	mu       sync.Mutex
	problems []string
}

func newTab(t *testing.T, browser context.Context, width, height int64) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.problem(fmt.Sprint("exception: ", e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception.Description))
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				p.problem("console: " + string(e.Args[0].Value))
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				p.problem(e.Entry.Text + " " + e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(width, height))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Error("the browser says:", problem)
		}
	})
	return p
}

func (p *tab) problem(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// forgive forgets what the browser has said, where a test has provoked it.
func (p *tab) forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = nil
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// run runs a script.
func (p *tab) run(script string) {
	p.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](script))
}

func (p *tab) click(selector string) {
	p.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses the key of a character. Unlike chromedp's KeyEvent it lets the page keep the character from the
// field that has the focus, as a keyboard does.
func (p *tab) press(key string) {
	p.Helper()
	for _, event := range []input.DispatchKeyEventParams{
		{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key},
		{Type: input.DispatchKeyEventTypeKeyUp, Key: key},
	} {
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event); err != nil {
			p.Fatal(err)
		}
	}
}

// find puts words into the field for searching, as somebody does who types them.
func (p *tab) find(words string) {
	p.Helper()
	p.run(`$("find").focus(); $("find").select()`)
	p.do(chromedp.KeyEvent(words))
}

// prefers sets the theme that the reader's system has.
func (p *tab) prefers(theme string) {
	p.Helper()
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme},
			{Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		p.Fatal(err)
	}
}

// get evaluates an expression.
func get[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true.
func (p *tab) until(expression string) {
	p.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !get[bool](p, "!!("+expression+")") {
		select {
		case <-p.ctx.Done():
			p.Fatalf("never true: %s", expression)
		case <-ticker.C:
		}
	}
}

// open loads the page of a scene and waits until it shows something.
func (p *tab) open(s *scene, hash string) {
	p.Helper()
	p.do(chromedp.Navigate(s.url() + hash))
	p.until(`document.querySelector("#foot").textContent`)
}

// fresh waits until the page shows the scene's books as they are.
func (p *tab) fresh(s *scene) {
	p.Helper()
	p.until(fmt.Sprintf(`current && current.generation >= %d`, s.book.Generation()))
}

// labels are how all bars inside an element are read out.
func (p *tab) labels(selector string) []string {
	p.Helper()
	return get[[]string](p, "[..."+query(selector+` [role=img]`)+`].map((e) => e.ariaLabel)`)
}

// text is what is written in an element, with single spaces.
func (p *tab) text(selector string) string {
	p.Helper()
	return strings.Join(strings.Fields(get[string](p, query(selector)+`[0].textContent`)), " ")
}

func query(selector string) string {
	quoted, err := json.Marshal(selector)
	if err != nil {
		panic(err) // text is always JSON
	}
	return "document.querySelectorAll(" + string(quoted) + ")"
}
