package web

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"text/template/parse"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/console/session"
)

// shared has the layout, the page of errors, and the parts for all areas.
//
//go:embed templates
var shared embed.FS

// pages are the parsed templates by name.
type pages struct{ byName map[string]*template.Template }

// parsePages parses the templates of areas, each with the layout.
func parsePages(areas []Area) (*pages, error) {
	layout, err := template.New("layout.html").Funcs(functions).ParseFS(shared, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the layout: %w", err)
	}
	p := &pages{byName: map[string]*template.Template{}}
	own, err := fs.Sub(shared, "templates/pages")
	if err != nil {
		return nil, err
	}
	all := []fs.FS{own}
	for _, area := range areas {
		files, err := fs.Sub(area.Templates(), "templates")
		if err != nil {
			return nil, err
		}
		all = append(all, files)
	}
	for _, files := range all {
		if err := p.add(layout, files); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add parses the pages of an area. Files with a name that begins with _ are parts for all its pages.
func (p *pages) add(layout *template.Template, files fs.FS) error {
	names, err := fs.Glob(files, "*.html")
	if err != nil {
		return err
	}
	base := template.Must(layout.Clone())
	var own []string
	for _, name := range names {
		if !strings.HasPrefix(name, "_") {
			own = append(own, name)
		} else if _, err := base.ParseFS(files, name); err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
	}
	for _, file := range own {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if p.byName[name] != nil {
			return fmt.Errorf("two pages are named %s", name)
		}
		if p.byName[name], err = template.Must(base.Clone()).ParseFS(files, file); err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
		if missing := undefined(p.byName[name]); missing != "" {
			return fmt.Errorf("the page %s uses a template %s, which is not defined", name, missing)
		}
	}
	return nil
}

// undefined returns the name of a template that a page uses and lacks, or "". Execution would find it only when it
// reaches the use.
func undefined(page *template.Template) string {
	for _, each := range page.Templates() {
		if each.Tree == nil {
			continue
		}
		for _, name := range usedIn(each.Tree.Root) {
			if used := page.Lookup(name); used == nil || used.Tree == nil {
				return name
			}
		}
	}
	return ""
}

// usedIn returns the names of the templates in a list of nodes.
func usedIn(list *parse.ListNode) []string {
	if list == nil {
		return nil
	}
	var names []string
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.TemplateNode:
			names = append(names, node.Name)
		case *parse.IfNode:
			names = append(names, append(usedIn(node.List), usedIn(node.ElseList)...)...)
		case *parse.RangeNode:
			names = append(names, append(usedIn(node.List), usedIn(node.ElseList)...)...)
		case *parse.WithNode:
			names = append(names, append(usedIn(node.List), usedIn(node.ElseList)...)...)
		}
	}
	return names
}

// docsURL is where the documents of the product are.
const docsURL = "https://github.com/bursar/bursar/blob/main/docs/"

// functions are those of all templates.
var functions = template.FuncMap{
	"asset": asset,
	"path":  Path,
	// time is a time with its zone, for people and for machines.
	"time": func(t time.Time) template.HTML {
		t = t.UTC()
		return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339), t.Format("2006-01-02 15:04 MST"))) //nolint:gosec // both are digits and letters
	},
	"count": message.Count[int],
	// doc links to a document of the product, such as tasks/grants.
	"doc": func(name string) template.HTML {
		name = (&url.URL{Path: name}).EscapedPath()
		return template.HTML(`<a href="` + docsURL + name + `.md">docs/` + name + `.md</a>`) //nolint:gosec // the name is escaped
	},
	"age": func(t time.Time) string { return duration.HumanDuration(time.Since(t)) },
	// part is the data of a template with several arguments, in pairs of name and value.
	"part": func(pairs ...any) (map[string]any, error) {
		part := map[string]any{}
		for i := 0; i+1 < len(pairs); i += 2 {
			name, isText := pairs[i].(string)
			if !isText {
				return nil, errors.New("part: a name is no text")
			}
			part[name] = pairs[i+1]
		}
		return part, nil
	},
}

// view is the content of the layout.
type view struct {
	Page
	// Session is nil before the login.
	Session *session.Session
	Menu    []entry
	Notice  string
	// LiveURL is the stream of changes, or empty.
	LiveURL string
	CSRF    string
	// Now is the time of the page.
	Now time.Time
}

// entry is an entry of the menu of a page.
type entry struct {
	Title, URL string
	IsCurrent  bool
}

// write implements [Answer].
func (p Page) write(c *Console, w http.ResponseWriter, r *Request) error {
	v := view{Page: p, Session: r.Session, Now: time.Now(), LiveURL: r.liveURL(p.Live), CSRF: r.Session.CSRF, Menu: c.menu(r)}
	if r.Header.Get("HX-Request") == "" {
		v.Notice = r.Session.TakeNotice()
	}
	return c.render(w, &v)
}

// WritePublic writes a page for somebody without a session.
func (c *Console) WritePublic(w http.ResponseWriter, p Page) error {
	return c.render(w, &view{Page: p, Now: time.Now()})
}

// WritePublicError writes a page about an error for somebody without a session.
func (c *Console) WritePublicError(w http.ResponseWriter, r *http.Request, status int, message string) {
	page := Page{Template: "error", Title: cmp.Or(errorTitles[status], http.StatusText(status)), Data: message, Status: status}
	if err := c.WritePublic(w, page); err != nil {
		c.log.Error("cannot write a page", "path", r.URL.Path, "err", err)
	}
}

// render executes a template, and writes nothing if it fails.
func (c *Console) render(w http.ResponseWriter, v *view) error {
	page := c.pages.byName[v.Template]
	if page == nil {
		return fmt.Errorf("there is no template %s", v.Template)
	}
	var body bytes.Buffer
	if err := page.ExecuteTemplate(&body, "layout.html", v); err != nil {
		return fmt.Errorf("render %s: %w", v.Template, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	_, _ = io.WriteString(w, message.Clean(body.String())) // the browser may have left
	return nil
}

// menu returns the entries that a person may use.
func (c *Console) menu(r *Request) []entry {
	var menu []entry
	for _, area := range c.areas {
		for _, item := range area.Menu() {
			if item.Needs.Verb != "" && !r.May(item.Needs) && !(item.AtHome && r.mayAtHome(item.Needs)) {
				continue
			}
			path := strings.TrimPrefix(r.URL.Path, Base)
			isCurrent := path == item.Path || (item.Path != "/" && strings.HasPrefix(path, item.Path+"/"))
			menu = append(menu, entry{Title: item.Title, URL: Base + item.Path, IsCurrent: isCurrent})
		}
	}
	return menu
}

// mayAtHome reports whether the person has a right in the namespace of their kubeconfig.
func (r *Request) mayAtHome(wanted authorizationv1.ResourceAttributes) bool {
	wanted.Namespace = r.Session.Namespace
	return wanted.Namespace != "" && r.May(wanted)
}

// errorTitles are the titles of pages with the usual errors.
var errorTitles = map[int]string{
	http.StatusUnprocessableEntity: "This is not possible", http.StatusForbidden: "You may not do this", http.StatusNotFound: "There is no such page",
	http.StatusConflict: "Something changed in between", http.StatusBadGateway: "The API server is away",
}

// writeError writes a page about an error.
func (c *Console) writeError(w http.ResponseWriter, r *Request, err error) {
	status, message := http.StatusInternalServerError, "The console could not make this page: "+err.Error()
	var known *StatusError
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &known):
		status, message = known.Status, known.Message
	case errors.As(err, &api) && api.Status().Code >= http.StatusBadRequest:
		status, message = int(api.Status().Code), "The API server answers: "+err.Error()
	case utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err):
		status, message = http.StatusBadGateway, "The API server does not answer. Open this page again in a moment."
	}
	if status >= http.StatusInternalServerError {
		c.log.Error("cannot answer a request", "path", r.URL.Path, "err", err)
	}
	page := Page{Template: "error", Title: http.StatusText(status), Data: message, Status: status}
	if err := page.write(c, w, r); err != nil {
		c.log.Error("cannot write a page", "path", r.URL.Path, "err", err)
		http.Error(w, message, status)
	}
}
