package fleet

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// follow feeds a store of a copy by a list and a watch until the copy ends. It ends the copy if the API server no
// longer accepts the credentials, or no longer lets them list.
func follow[L client.ObjectList](
	c *Copy, what string, api client.WithWatch, object client.Object, store cache.ReflectorStore, newList func() L, trim func(L),
) {
	watcher := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = "" // from its cache, the API server would answer with all objects at once
			}
			list := newList()
			if err := c.noted(what, api.List(ctx, list, &client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue})); err != nil {
				return nil, err
			}
			trim(list)
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			w, err := api.Watch(ctx, newList(), &client.ListOptions{Raw: &o})
			return w, c.noted(what, err)
		},
	}
	quiet := logr.Discard() // pages show the failure
	reflector := cache.NewReflectorWithOptions(watcher, object, store, cache.ReflectorOptions{Logger: &quiet, Name: "fleet"})
	reflector.WatchListPageSize = pageSize
	go reflector.RunWithContext(logr.NewContext(c.ctx, quiet))
}
