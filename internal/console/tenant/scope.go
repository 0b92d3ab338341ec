package tenant

import (
	"slices"

	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/console/web"
)

// filterMax bounds the characters of a filter.
const filterMax = 400

// scope selects the quota on a page: that of a namespace, of a consumer, or all quota visible to the person.
type scope struct {
	// Path is the page.
	Path                      string
	Namespace, Consumer, Type string
	// Namespaces are those to choose from, if the person may list them.
	Namespaces []string
	// MustChoose reports whether the person has to choose a namespace, because none is known.
	MustChoose bool
	// MaySeeAll reports whether the person may list all quota of the cluster.
	MaySeeAll bool
	// WithConsumer and WithType report the filters of the page.
	WithConsumer, WithType bool
}

// scopeOf returns the scope in a request.
func scopeOf(r *web.Request, path string) (scope, error) {
	s := scope{Path: path, Namespace: r.Query("namespace"), Consumer: r.Query("consumer"), Type: r.Query("type")}
	if err := s.check(); err != nil {
		return s, err
	}
	s.MaySeeAll = r.May(web.Right("list", "effectiveresourcegrants", ""))
	if s.Namespace == "" && !s.MaySeeAll {
		s.Namespace = r.Session.Namespace
		s.MustChoose = s.Namespace == ""
	}
	var err error
	s.Namespaces, err = r.Session.Namespaces(r.Context())
	if s.Namespace != "" && len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, s.Namespace) {
		s.Namespaces = append(s.Namespaces, s.Namespace)
	}
	return s, err
}

// check returns an error for invalid filters.
func (s *scope) check() error {
	if s.Namespace != "" {
		if err := web.CheckNamespace(s.Namespace); err != nil {
			return err
		}
	}
	if len(s.Consumer) > filterMax || len(s.Type) > filterMax {
		return web.Invalid("The filter is too long. Shorten it.")
	}
	if s.Consumer != "" {
		if _, err := consumername.Parse(s.Consumer); err != nil {
			return web.Invalid("The consumer " + err.Error() + ".")
		}
	}
	return nil
}

// URL returns the URL of a page with the scope.
func (s scope) URL(path string, parameters ...string) string {
	return web.Path(path, append([]string{"namespace", s.Namespace, "consumer", s.Consumer, "type", s.Type}, parameters...)...)
}

// live watches the quota of the scope.
func (s scope) live() []web.Watch {
	if s.MustChoose {
		return nil
	}
	return []web.Watch{{Resource: "effectiveresourcegrants", Namespace: s.Namespace}}
}
