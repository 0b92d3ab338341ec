package objectcache

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/kube/discoverycache"
)

// undefined reports every kind as undefined.
type undefined struct{ isDeleted bool }

func (undefined) StateOf(context.Context, schema.GroupKind) (discoverycache.State, schema.GroupVersionResource, error) {
	return discoverycache.Undefined, schema.GroupVersionResource{}, nil
}

func (u undefined) DefinitionDeleted(schema.GroupKind) bool { return u.isDeleted }

// The objects of an unavailable aggregated API server count as existing for hours, while a policy names their kind. The
// objects of a deleted CustomResourceDefinition are gone with it.
func TestUnavailableKind(t *testing.T) {
	kind, name := schema.GroupKind{Group: "g", Kind: "Machine"}, types.NamespacedName{Name: "a"}
	for testName, tt := range map[string]struct {
		reason              string
		isDeleted, isNeeded bool
		counts              time.Duration
	}{
		"aggregated": {reason: "it may come back", isNeeded: true, counts: unavailableMax},
		"definition": {reason: "its objects went with it", isNeeded: true, isDeleted: true},
		"no policy":  {reason: "nobody waits for it"},
	} {
		t.Run(testName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := New(nil, undefined{tt.isDeleted})
				o.Expect(func(schema.GroupKind) bool { return tt.isNeeded })
				began := time.Now()
				for time.Since(began) < tt.counts {
					_, err := o.IsAlive(t.Context(), kind, name, "uid")
					if err == nil || !strings.Contains(err.Error(), "they count until "+began.Add(unavailableMax).UTC().Format(time.RFC3339)) || o.IsUndefined(t.Context(), kind) {
						t.Fatalf("%s: after %s: %v", tt.reason, time.Since(began), err)
					}
					time.Sleep(unavailableMax / 3)
				}
				time.Sleep(time.Second)
				if lives, err := o.IsAlive(t.Context(), kind, name, "uid"); lives || err != nil || !o.IsUndefined(t.Context(), kind) {
					t.Errorf("%s: after %s: it lives: %t, %v", tt.reason, time.Since(began), lives, err)
				}
			})
		})
	}
}
