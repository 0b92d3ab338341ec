// Package administrator is the area of the console for people who run a platform: all consumers, policies, caps and
// health. It shows what the API server lets the person see, and names the rest. Only the console imports it.
package administrator

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bursar/bursar/internal/console/chart"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

//go:embed templates/*
var templates embed.FS

// listMax bounds the objects of a list on a page.
const listMax = 500

// Area is the administrator's part of the console.
type Area struct {
	// Copies are the copies of all quota.
	Copies *fleet.Copies
	// SystemNamespace is the namespace of Bursar itself.
	SystemNamespace string
}

// Templates implements [web.Area].
func (Area) Templates() fs.FS { return templates }

// Menu implements [web.Area].
func (Area) Menu() []web.MenuItem {
	return []web.MenuItem{
		{Title: "Fleet", Path: "/fleet", Needs: listConsumers},
		{Title: "Policies", Path: "/policies", Needs: listPolicies},
		{Title: "Caps", Path: "/caps", Needs: listAllocations},
		{Title: "Health", Path: "/health", Needs: listPolicies},
	}
}

// Routes implements [web.Area].
func (a Area) Routes(r *web.Router) {
	r.Get("/fleet", a.fleet)
	r.Get("/fleet/consumer", a.consumer)
	r.Get("/policies", a.policies)
	r.Get("/policies/{name}", a.policy)
	r.Post("/policies/{name}", a.changeMode)
	r.Get("/caps", a.caps)
	r.Get("/caps/{namespace}", a.namespace)
	r.Get("/health", a.health)
}

// These are the rights that pages need, in all namespaces.
var (
	listConsumers   = web.Right("list", "effectiveresourcegrants", "")
	listPolicies    = web.Right("list", "claimcreationpolicies", "")
	patchPolicies   = web.Right("patch", "claimcreationpolicies", "")
	listAllocations = web.Right("list", "resourcequotaallocations", "")
)

// closed is the page for people who lack a right. Its sentence names the forbidden action.
func closed(title, sentence string) web.Page {
	return web.Page{Template: "administrator-closed", Title: title, Data: sentence, Status: http.StatusForbidden}
}

// barOf draws the used part of a limit.
func barOf(of string, u usage.Usage, used, limit string) template.HTML {
	return chart.Bar(u.Used, u.Limit, fmt.Sprintf("%s: %s of %s used", of, used, limit))
}

// condition is a condition for people.
type condition struct {
	Type, State, Reason, Message string
	// IsBad reports whether it needs attention.
	IsBad bool
	Since time.Time
}

// conditionsOf returns conditions. Those of the given types need attention unless they are True.
func conditionsOf(all []metav1.Condition, wantTrue ...string) []condition {
	isWanted := map[string]bool{}
	for _, each := range wantTrue {
		isWanted[each] = true
	}
	var found []condition
	for _, c := range all {
		isBad := isWanted[c.Type] && c.Status != metav1.ConditionTrue
		found = append(found, condition{
			Type: c.Type, State: string(c.Status), Reason: c.Reason, Message: c.Message, IsBad: isBad, Since: c.LastTransitionTime.Time,
		})
	}
	return found
}

// problemOf returns the message of a condition, or nothing if the condition is True or absent.
func problemOf(all []metav1.Condition, conditionType string) string {
	c := apimeta.FindStatusCondition(all, conditionType)
	if c == nil || c.Status == metav1.ConditionTrue {
		return ""
	}
	return c.Reason + ": " + c.Message
}
