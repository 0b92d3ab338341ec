package web

import (
	"context"
	"strings"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader is the API of a request. It remembers the versions of the lists for a page.
type reader struct {
	client.WithWatch

	mu       sync.Mutex
	versions map[Watch]string
}

func newReader(api client.WithWatch) *reader {
	return &reader{WithWatch: api, versions: map[Watch]string{}}
}

// List implements [client.Client].
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.WithWatch.List(ctx, list, options...); err != nil {
		return err
	}
	kind, err := r.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	resource, _ := apimeta.UnsafeGuessKindToResource(kind)
	where := (&client.ListOptions{}).ApplyOptions(options).Namespace
	r.mu.Lock()
	defer r.mu.Unlock()
	// The page shows the content of the first list, and later changes renew it.
	if of := (Watch{Resource: resource.Resource, Namespace: where}); r.versions[of] == "" {
		r.versions[of] = list.GetResourceVersion()
	}
	return nil
}

// versionOf returns the version of the page's list of objects, or nothing if it read none.
func (r *reader) versionOf(w Watch) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.versions[w]
}
