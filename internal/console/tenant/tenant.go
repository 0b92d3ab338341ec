// Package tenant has the pages of the console on which tenants see their quota. They show the amounts left, the objects
// that use it, the claims that wait for it, whether a manifest would fit, and past changes. Only the console imports
// it.
package tenant

import (
	"embed"
	"io/fs"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

//go:embed templates/*
var templates embed.FS

// Area has the pages of tenants.
type Area struct{}

// Templates implements [web.Area].
func (Area) Templates() fs.FS { return templates }

// Menu implements [web.Area].
func (Area) Menu() []web.MenuItem {
	return []web.MenuItem{
		{Title: "My quota", Path: "/quota"}, {Title: "What uses it", Path: "/uses"}, {Title: "Waiting", Path: "/waiting"},
		{Title: "Try a manifest", Path: "/try"}, {Title: "History", Path: "/history"},
	}
}

// Routes implements [web.Area].
func (Area) Routes(r *web.Router) {
	r.Get("/quota", showQuota)
	r.Get("/quota/trend", showTrends)
	r.Get("/uses", showUses)
	r.Get("/waiting", showWaiting)
	trial := newTrial()
	r.Get("/try", trial.show)
	r.Post("/try", trial.try)
	r.Get("/history", showHistory)
}

// command returns a command line for people to copy. The words after the first come in pairs of a flag and its value.
// It omits pairs with an empty value.
func command(begin string, flags ...string) string {
	words := strings.Fields(begin)
	for i := 0; i+1 < len(flags); i += 2 {
		if flag, value := flags[i], flags[i+1]; value != "" {
			words = append(words, flag, value)
		}
	}
	return commandline.Join(words...)
}

// forbidden returns a sentence about what a person may not see, or the error if it is another.
func forbidden(err error, what string) (sentence string, other error) {
	if !apierrors.IsForbidden(err) {
		return "", err
	}
	return "You may not see " + what + ". Choose another namespace, or ask its administrator for the role bursar-tenant-viewer there.", nil
}

// unread explains a missing part of a page. It returns an error if the session has ended.
func unread(err error) (sentence string, ended error) {
	if err == nil {
		return "", nil
	}
	if session.IsEnded(err) {
		return "", err
	}
	return err.Error(), nil
}
