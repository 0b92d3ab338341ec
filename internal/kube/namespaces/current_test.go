package namespaces

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions are the versions of namespaces that a reader shows, one after the other. An empty one is an absent
// namespace, and the last one stays.
type versions map[string][]string

func (v versions) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	of := v[key.Name]
	if len(of) > 1 {
		v[key.Name] = of[1:]
	}
	if len(of) == 0 || of[0] == "" {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), key.Name)
	}
	object.SetName(key.Name)
	object.SetResourceVersion(of[0])
	return nil
}

func (v versions) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for name, of := range v {
		one := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: of[0]}}
		list.(*metav1.PartialObjectMetadataList).Items = append(list.(*metav1.PartialObjectMetadataList).Items, one)
	}
	return nil
}

// TestAwaitCurrent lets a watch lag, as a real one does not on demand.
func TestAwaitCurrent(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		live   versions
		watch  versions
		seen   string // the last version seen in the watch, or empty for an error
	}{
		"current":  {"there is nothing to wait for", versions{"a": {"5"}}, versions{"a": {"5"}}, "5"},
		"newer":    {"the watch is ahead of the list", versions{"a": {"5"}}, versions{"a": {"6"}}, "6"},
		"lagging":  {"it catches up", versions{"a": {"12"}}, versions{"a": {"5", "9", "12", "13"}}, "12"},
		"absent":   {"it appears in an old version first", versions{"a": {"12"}}, versions{"a": {"", "5", "12"}}, "12"},
		"deleted":  {"it will not come any more", versions{"a": {"12", ""}}, versions{"a": {""}}, "none"},
		"standing": {"the caller tries again later", versions{"a": {"12"}}, versions{"a": {"5"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				seen := &recorder{Reader: tt.watch, last: "none"}
				err := (&Namespaces{Cached: seen, Live: tt.live}).AwaitCurrent(t.Context())
				if tt.seen == "" {
					if err == nil || !strings.Contains(err.Error(), "namespace a") || time.Since(began) < time.Second {
						t.Errorf("%s: got %v after %s", tt.reason, err, time.Since(began))
					}
					return
				}
				if err != nil || seen.last != tt.seen {
					t.Errorf("%s: it ends at version %s, want %s: %v", tt.reason, seen.last, tt.seen, err)
				}
			})
		})
	}
}

// recorder records the last version that its reader shows.
type recorder struct {
	client.Reader
	last string
}

func (r *recorder) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, object, options...)
	if err == nil {
		r.last = object.GetResourceVersion()
	}
	return err
}
