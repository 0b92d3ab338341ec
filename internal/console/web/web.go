// Package web has the parts shared by all pages of the console: routes, templates, the protection of forms, and live
// parts. An area brings pages; each runs with the session of the person who asks for it. Only the console imports this
// package.
package web

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/session"
)

// Base is the path of the console.
const Base = "/console"

// Area is a part of the console.
type Area interface {
	// Templates has the pages of the area, as files templates/NAME.html that define "content". Names are unique in the
	// console.
	Templates() fs.FS
	// Menu returns the entries of the area in the menu.
	Menu() []MenuItem
	// Routes adds the pages of the area.
	Routes(router *Router)
}

// Right is a right on a resource of the quota API, in a namespace or, if it is empty, in all.
func Right(verb, resource, namespace string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: verb, Group: quotav1alpha1.GroupName, Version: "*", Resource: resource, Namespace: namespace}
}

// MenuItem is an entry of the menu.
type MenuItem struct {
	Title string
	// Path is the path of a page, without [Base].
	Path string
	// Needs is a right without which the menu omits the entry. Zero: everybody sees it. The page itself needs no check:
	// the API server decides what it shows.
	Needs authorizationv1.ResourceAttributes
	// AtHome means that the right in the person's own namespace suffices.
	AtHome bool
}

// Request is a request with a session.
type Request struct {
	*http.Request
	Session *session.Session

	api *reader
}

// API returns a client that acts as the person.
func (r *Request) API() client.WithWatch { return r.api }

// Query returns a parameter of the URL, without spaces around it.
func (r *Request) Query(name string) string { return strings.TrimSpace(r.URL.Query().Get(name)) }

// Form returns a field of the form, without spaces around it.
func (r *Request) Form(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }

// May reports whether the person has a right.
func (r *Request) May(wanted authorizationv1.ResourceAttributes) bool {
	return r.Session.May(r.Context(), wanted)
}

// Handler answers a request. An error becomes a page that explains it, with the status of the API server's error or of
// a [StatusError]; others are 500.
type Handler func(r *Request) (Answer, error)

// Answer is a [Page] or a [Redirect].
type Answer interface {
	write(c *Console, w http.ResponseWriter, r *Request) error
}

// Page is an answer with a template.
type Page struct {
	// Template is the name of the template's file without .html.
	Template string
	Title    string
	// Data is the template's .Data.
	Data any
	// Command is the command line that does or shows the same.
	Command string
	// Live are the objects whose changes renew the element with the ID "live".
	Live []Watch
	// Status is the HTTP status. Zero: 200.
	Status int
}

// Redirect leads the browser to another page, after an action.
type Redirect struct {
	// To is the path of the page, without [Base], with its query.
	To string
	// Notice appears there once.
	Notice string
}

// Path returns a path below [Base] with parameters in pairs of name and value. It leaves out empty values.
func Path(path string, parameters ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			query.Set(parameters[i], parameters[i+1])
		}
	}
	if len(query) == 0 {
		return Base + path
	}
	return Base + path + "?" + query.Encode()
}

// StatusError is an error with an HTTP status.
type StatusError struct {
	Status  int
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return e.Message }

// Invalid returns an error about a person's input.
func Invalid(message string) error {
	return &StatusError{Status: http.StatusUnprocessableEntity, Message: message}
}

// CheckNamespace returns an error unless a text can be the name of a namespace. The API server has no path for others.
func CheckNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return Invalid(fmt.Sprintf("%q is not a valid name of a namespace: names have lower-case letters, digits and dashes.", name))
	}
	return nil
}

// Confirmed returns an error unless the form's field "confirm" repeats a name. Destructive actions ask for it.
func Confirmed(r *Request, name string) error {
	if r.Form("confirm") == name {
		return nil
	}
	return Invalid("Enter the name " + name + " to confirm. Nothing was changed.")
}
