// Package requests has the pages about QuotaRequests: for tenants, to ask for more and follow the outcome, and for
// approvers, to decide. It reads and writes with the rights of the person, by the same functions as the commands. Only
// the console imports it.
package requests

import (
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"net/url"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

//go:embed templates/*
var templates embed.FS

// Area is the area of requests and decisions.
type Area struct {
	// Copies are the copies of all quota. From these, people who may see them learn how much a cap leaves.
	Copies *fleet.Copies
}

// Templates implements [web.Area].
func (Area) Templates() fs.FS { return templates }

// Menu implements [web.Area].
func (Area) Menu() []web.MenuItem {
	return []web.MenuItem{
		{Title: "Requests", Path: "/requests"},
		{Title: "Inbox", Path: "/inbox", Needs: mayDecide(""), AtHome: true},
	}
}

// Routes implements [web.Area].
func (a Area) Routes(r *web.Router) {
	r.Get("/requests", showList)
	r.Get("/requests/new", showAsk)
	r.Post("/requests/new", ask)
	r.Get("/requests/denial", func(*web.Request) (web.Answer, error) { return web.Redirect{To: "/requests/new"}, nil })
	r.Post("/requests/denial", readDenial)
	r.Get("/requests/{namespace}/{name}", showRequest)
	r.Get("/requests/{namespace}/{name}/withdraw", func(r *web.Request) (web.Answer, error) { return web.Redirect{To: requestPath(keyOf(r))}, nil })
	r.Post("/requests/{namespace}/{name}/withdraw", withdraw)
	r.Get("/inbox", showInbox)
	r.Get("/inbox/{namespace}/{name}", a.showDecide)
	r.Post("/inbox/{namespace}/{name}", a.decide)
}

// mayDecide is the right to decide in a namespace, or in all if it is empty.
func mayDecide(namespace string) authorizationv1.ResourceAttributes {
	return web.Right("create", "quotadecisions", namespace)
}

// keyOf returns the request in the path of a page.
func keyOf(r *web.Request) client.ObjectKey {
	return client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

// requestPath returns the path of the page of a request, without [web.Base].
func requestPath(key client.ObjectKey) string {
	return "/requests/" + url.PathEscape(key.Namespace) + "/" + url.PathEscape(key.Name)
}

// inboxPath returns the path of the page on which people decide a request, without [web.Base].
func inboxPath(key client.ObjectKey) string {
	return "/inbox/" + url.PathEscape(key.Namespace) + "/" + url.PathEscape(key.Name)
}

// namespaceOf returns the namespace of the requests on a page: the one in the URL, all if the person may list all, and
// else that of their kubeconfig. isKnown is false if there is none.
func namespaceOf(r *web.Request) (namespace string, isKnown bool, err error) {
	switch namespace = r.Query("namespace"); {
	case namespace != "":
		return namespace, true, web.CheckNamespace(namespace)
	case r.May(web.Right("list", "quotarequests", "")):
		return "", true, nil
	default:
		return r.Session.Namespace, r.Session.Namespace != "", nil
	}
}

// problemOf returns the text and the status to show a form again, after an invalid input or an error of the API server
// about it. Other errors are not the person's, and it returns them.
func problemOf(err error) (text string, status int, other error) {
	var input *request.InputError
	var decided *request.DecidedError
	var known *web.StatusError
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &input):
		return sentence(input.Text), http.StatusUnprocessableEntity, nil
	case errors.As(err, &decided):
		return sentence(decided.Error()) + " Nothing was changed.", http.StatusConflict, nil
	case errors.As(err, &known):
		return known.Message, known.Status, nil
	case session.IsEnded(err):
		return "", 0, err
	case errors.As(err, &api) && api.Status().Code >= http.StatusBadRequest && api.Status().Code < http.StatusInternalServerError:
		return sentence(err.Error()) + " Nothing was changed.", int(api.Status().Code), nil
	default:
		return "", 0, err
	}
}
