package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Pages of the three persons, without /console.
var (
	tenantPages = []string{
		"/quota", "/quota?namespace=org-acme", "/uses?namespace=org-acme", "/waiting?namespace=org-acme", "/requests?namespace=org-acme",
		"/requests/new?namespace=org-acme&consumer=Organization/acme&type=cloud.example.com/machines&amount=%2B1", "/try", "/history?namespace=org-acme", "/nowhere",
	}
	approverPages      = []string{"/inbox", "/requests", "/quota?namespace=org-acme"}
	administratorPages = []string{
		"/fleet", "/fleet?q=nothing", "/policies", "/policies/machines", "/policies/machines?mode=Audit", "/caps", "/caps/org-acme", "/health", "/quota",
		"/fleet/consumer?group=cloud.example.com&name=Organization%2Facme",
	}
)

// finance are the flags of bursar console for the approver.
var finance = []string{"--as", approver, "--as-group", "finance"}

// Every page is accessible to each person: light and dark, narrow and wide.
func TestPages(t *testing.T) {
	t.Run("login", func(t *testing.T) {
		p := opens(t, "somebody", "https://"+shared.world.address)
		p.wantPages([]string{"/login"})
	})
	t.Run(tenant, func(t *testing.T) { withToken(t, tenant).wantPages(tenantPages) })
	t.Run(approver, func(t *testing.T) { withCommand(t, approver, finance...).wantPages(approverPages) })
	t.Run(administrator, func(t *testing.T) { withToken(t, administrator).wantPages(administratorPages) })
}

// wantPages wants accessible pages in all views.
func (p *person) wantPages(paths []string) {
	p.Helper()
	for _, v := range views {
		p.looks(v)
		for _, path := range paths {
			p.goTo(path)
			p.wantAccessible(fmt.Sprintf("%s, %s, %s", p.name, path, v.name))
		}
	}
	p.wantNoProblems()
}

// A page says that its console is gone.
func TestLostConnection(t *testing.T) {
	p, console := atConsole(t, approver, finance...)
	p.goTo("/fleet")
	p.sees("Renewed at") // the stream is open
	console.Kill()
	p.sees("The connection was lost at")
}

// People can read pages without a script, and forms work.
func TestWithoutScript(t *testing.T) {
	p := opens(t, tenant, "https://"+shared.world.address)
	p.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	p.goTo("/login")
	p.fill("input[name=token]", shared.world.tokens[tenant])
	p.click("button[type=submit]")
	p.waitFor("form.who")
	for _, path := range tenantPages {
		p.goTo(path)
	}
	p.goTo("/try")
	p.fill("textarea[name=manifest]", "apiVersion: cloud.example.com/v1\nkind: Machine\nmetadata: {name: tried, namespace: org-acme}\nspec: {cpus: 50, memoryGiB: 1}\n")
	p.click("main button[type=submit]")
	p.sees("Result", "exceeded quota")
	p.click("form.who button")
	p.sees("Bearer token of the API server")
}

// A person without a mouse reaches the content, the menu and a form, and sees where the focus is.
func TestKeyboard(t *testing.T) {
	p := withToken(t, tenant)
	p.goTo("/quota")
	p.press(kb.Tab)
	if got := p.focused(); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	p.press(kb.Enter)
	p.until(func() error {
		if id := ask[string](p, "document.activeElement.id"); id != "main" {
			return fmt.Errorf("the link to the content leads to %q", id)
		}
		return nil
	})
	p.goTo("/quota")
	p.tabTo("Requests")
	p.press(kb.Enter)
	p.sees("Requests")
	p.goTo("/requests/new?namespace=org-acme&consumer=Organization/acme&type=cloud.example.com/machines&amount=%2B1")
	p.until(func() error {
		if ask[bool](p, "document.activeElement.matches('textarea[name=reason]')") {
			return nil
		}
		p.press(kb.Tab)
		if outline := ask[string](p, "getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
			p.Errorf("the focus on %q cannot be seen", p.focused())
		}
		return fmt.Errorf("the keyboard does not reach the reason, but %q", p.focused())
	})
	p.do(chromedp.KeyEvent("by keyboard"))
	p.press(kb.Tab)
	p.press(kb.Enter)
	p.sees("by keyboard", "Waits for a decision")
	p.wantNoProblems()
}

// focused returns the text of the element with the focus.
func (p *person) focused() string {
	p.Helper()
	return strings.TrimSpace(ask[string](p, "document.activeElement.innerText || document.activeElement.name || ''"))
}

// tabTo presses Tab until an element with a text has the focus.
func (p *person) tabTo(text string) {
	p.Helper()
	for range 100 {
		p.press(kb.Tab)
		if p.focused() == text {
			return
		}
	}
	p.Fatalf("%s: the keyboard does not reach %q", p.name, text)
}
