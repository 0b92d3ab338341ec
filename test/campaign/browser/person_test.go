package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/bursar/bursar/test/process"
)

// timeout bounds each wait. Other programs run beside the browser.
const timeout = 30 * time.Second

// person is somebody in front of a browser of their own, with their own cookies.
type person struct {
	*testing.T
	name string
	ctx  context.Context
	base string

	mu sync.Mutex
	// problems are the complaints of the browser: blocked content, errors of scripts, and requests of a page from a folder.
	problems []string
}

// opens opens a browser for a person without a login.
func opens(t *testing.T, name, base string) *person {
	t.Helper()
	p := &person{T: t, name: name, base: base}
	ctx, cancel := chromedp.NewContext(shared.browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.listen))
	t.Cleanup(cancel)
	p.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // opens the tab, until the context of this call ends
		t.Fatalf("open a tab: %v", err)
	}
	p.do(chromedp.EmulateViewport(1280, 900))
	p.do(call(log.Enable, cdp.Empty{}))
	return p
}

// listen collects the complaints of the browser.
func (p *person) listen(event any) {
	problem := ""
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = event.ExceptionDetails.Text
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError && !strings.Contains(event.Entry.Text, "the server responded with a status of") {
			problem = event.Entry.Text
		}
	case *network.EventRequestWillBeSent:
		// What lies in a folder needs no network.
		if url := event.Request.URL; strings.HasPrefix(p.base, "file:") && !strings.HasPrefix(url, "file:") && !strings.HasPrefix(url, "data:") {
			problem = "the page asks for " + url
		}
	}
	if problem != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.problems = append(p.problems, problem)
	}
}

// wantNoProblems wants no complaint of the browser.
func (p *person) wantNoProblems() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		p.Errorf("%s: the browser complains: %s", p.name, problem)
	}
}

// withToken logs a person in at the standalone server.
func withToken(t *testing.T, name string) *person {
	t.Helper()
	p := opens(t, name, "https://"+shared.world.address)
	p.goTo("/login")
	p.fill("input[name=token]", shared.world.tokens[name])
	p.click("button[type=submit]")
	p.waitFor("form.who")
	return p
}

var printedURL = regexp.MustCompile(`http://\S+#token=\S+`)

// withCommand logs a person in by the URL from bursar console. The flags choose the user.
func withCommand(t *testing.T, name string, flags ...string) *person {
	t.Helper()
	p, _ := atConsole(t, name, flags...)
	return p
}

// atConsole is as withCommand, and returns the command, too.
func atConsole(t *testing.T, name string, flags ...string) (*person, *process.Command) {
	t.Helper()
	arguments := append([]string{"console", "--kubeconfig", shared.world.kubeconfig()}, flags...)
	console := process.Run(t, "bursar console of "+name, nil, shared.world.binary, arguments...)
	url := ""
	p := opens(t, name, "")
	p.until(func() error {
		if url = printedURL.FindString(console.Output()); url == "" {
			return fmt.Errorf("bursar console prints no URL:\n%s", console.Output())
		}
		return nil
	})
	p.base, _, _ = strings.Cut(url, "/console")
	p.open(url)
	p.waitFor("form.who")
	return p, console
}

// do runs an action.
func (p *person) do(a chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, a); err != nil {
		p.Fatalf("%s: %v", p.name, err)
	}
}

// call returns an action that sends a command of the protocol.
func call[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, command, parameters)
		return chromedp.Void{}, err
	}
}

// open opens a URL. The end of an earlier navigation, such as a login, may abort it; then open tries again.
func (p *person) open(url string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.Navigate(url))
	for err != nil && strings.Contains(err.Error(), "net::ERR_ABORTED") && ctx.Err() == nil {
		err = chromedp.Do(ctx, chromedp.Navigate(url))
	}
	if err != nil {
		p.Fatalf("%s: open %s: %v", p.name, url, err)
	}
}

// goTo opens a page by its path without /console.
func (p *person) goTo(path string) {
	p.Helper()
	p.open(p.base + "/console" + path)
	p.waitFor("main h1")
	if shown := p.text(); path != "/nowhere" && (strings.Contains(shown, "Back to the first page") || strings.Contains(shown, "Bearer token") != (path == "/login")) {
		p.Fatalf("%s cannot open %s:\n%s", p.name, path, shown)
	}
}

func (p *person) waitFor(selector string) {
	p.Helper()
	p.do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

func (p *person) click(selector string) {
	p.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill enters a text into an empty field as a person types it.
func (p *person) fill(selector, text string) {
	p.Helper()
	p.do(chromedp.SetValue(chromedp.CSS(selector), text))
}

// press presses keys, such as kb.Tab.
func (p *person) press(keys string) {
	p.Helper()
	p.do(chromedp.KeyEvent(keys))
}

// ask evaluates an expression in the page.
func ask[T any](p *person, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("%s: evaluate %s: %v", p.name, expression, err)
	}
	return value
}

// text returns the visible text of the page.
func (p *person) text() string {
	p.Helper()
	return ask[string](p, "document.body ? document.body.innerText : ''")
}

// sees waits until the page shows texts, without loading it again.
func (p *person) sees(texts ...string) {
	p.Helper()
	p.until(func() error {
		shown := p.text()
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return fmt.Errorf("%s does not see %q:\n%s", p.name, text, shown)
			}
		}
		return nil
	})
}

// until repeats a check until it succeeds.
func (p *person) until(check func() error) {
	p.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.Fatal(err)
		}
		select {
		case <-p.Context().Done():
			p.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// view is how a person looks at a page.
type view struct {
	name          string
	width, height int64
	isDark        bool
}

var views = []view{
	{name: "wide", width: 1280, height: 900},
	{name: "dark", width: 1280, height: 900, isDark: true},
	{name: "narrow", width: 320, height: 640},
	{name: "narrow and dark", width: 320, height: 640, isDark: true},
	{name: "4K", width: 3840, height: 2160},
}

// looks changes how the person looks at pages.
func (p *person) looks(v view) {
	p.Helper()
	scheme := "light"
	if v.isDark {
		scheme = "dark"
	}
	p.do(chromedp.EmulateViewport(v.width, v.height))
	p.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// violation is a violation of a rule of axe-core.
type violation struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// wantAccessible wants no violation of WCAG 2.2 AA or of good practice on the page by axe-core, and nothing wider than
// the window.
func (p *person) wantAccessible(where string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[json.RawMessage](shared.axe+";null")(ctx, t)
		return err
	})); err != nil && !errors.Is(err, context.Canceled) {
		p.Fatalf("%s: load axe-core: %v", where, err)
	}
	// From a folder, axe-core may not read styles a second time.
	const check = `axe.run(document, {preload: location.protocol !== "file:", runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(
		(r) => JSON.stringify(r.violations.map((v) => ({ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => ({HTML: n.html, FailureSummary: n.failureSummary}))}))))`
	report, err := chromedp.Run(ctx, chromedp.Evaluate[string](check, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: run axe-core: %v", where, err)
	}
	var violations []violation
	if err := json.Unmarshal([]byte(report), &violations); err != nil {
		p.Fatal(err)
	}
	for _, v := range violations {
		p.Errorf("%s: %s: %s", where, v.ID, v.Help)
		for _, node := range v.Nodes[:min(3, len(v.Nodes))] {
			p.Logf("  %s\n  %s", node.HTML, node.FailureSummary)
		}
	}
	if widths := ask[[]int](p, "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"); widths[0] > widths[1] {
		p.Errorf("%s: the page is %d px wide in a window of %d", where, widths[0], widths[1])
	}
}

// picture writes a screenshot of the page for the documentation, if the flag asks for it.
func (p *person) picture(name string) {
	p.Helper()
	if *images == "" {
		return
	}
	root, err := process.Root()
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	content, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, *images, name+".png"), content, 0o600); err != nil {
		p.Fatal(err)
	}
}
