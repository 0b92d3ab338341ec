package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// The way from denied to running, with two persons at once. The tenant gets a denial and asks, and the approver sees it
// at once and approves less. The tenant sees it at once, and the machine runs.
func TestFromDeniedToRunning(t *testing.T) {
	tom, ann := withToken(t, tenant), withCommand(t, approver, finance...)
	ann.goTo("/inbox")
	tom.goTo("/quota?namespace=org-acme")
	tom.sees("Processor cores", "14 cores of 16 cores")
	tom.waitFor("svg.trend") // the page loads the trends afterwards
	tom.picture("console-quota")

	manifest := filepath.Join(shared.world.root, "examples/console/6-render.yaml")
	content, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	tom.goTo("/try")
	tom.fill("textarea[name=manifest]", string(content))
	tom.click("main button[type=submit]")
	tom.sees("Result", "exceeded quota")
	tom.wantAccessible("the result of a plan")
	tom.picture("console-try")
	if output, err := shared.world.as(tenant, "create", "-f", manifest); err == nil {
		t.Fatalf("what does not fit is created:\n%s", output)
	}
	tom.click("main table a[href*='/requests/new']")
	tom.waitFor("textarea[name=reason]")
	tom.fill("input[name=amount]", "+8")
	tom.fill("textarea[name=reason]", "the film of March")
	tom.click("main form button[type=submit]:not([name])")
	tom.sees("Waits for a decision", "the film of March")
	tom.wantAccessible("the tenant's request")

	// The approver has loaded nothing since.
	ann.sees("the film of March", "Organization acme")
	ann.do(chromedp.Click(`//tr[contains(., "the film of March")]//a`))
	ann.waitFor("textarea[name=reason]")
	ann.sees("What helps to decide")
	ann.wantAccessible("the approver's request")
	ann.picture("console-decide")
	ann.fill("form input[name^=amount]", "+7")
	ann.click("form.stack button[type=submit]:not(.danger)")
	ann.sees("Approved")

	// The tenant has loaded nothing since.
	tom.sees("Approved in part", ann.name)
	tom.goTo("/quota?namespace=org-acme")
	tom.sees("15 cores of 23 cores")
	tom.until(func() error {
		_, err := shared.world.as(tenant, "apply", "-f", manifest)
		return err
	})
	tom.sees("5 machines of 5 machines")
	tom.wantNoProblems()
	ann.wantNoProblems()
}
