package importer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// remaining lists the metadata of a number of objects, which changes with time.
type remaining struct {
	metadata.Interface
	metadata.Getter
	left  func() int
	lists int
}

func (r *remaining) Resource(schema.GroupVersionResource) metadata.Getter { return r }

func (r *remaining) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	r.lists++
	list := &metav1.PartialObjectMetadataList{}
	for n := range r.left() {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(n))}})
	}
	return list, nil
}

// TestAwaitRemoval deletes objects slowly. It goes on for longer than its timeout while objects disappear, and lists
// them rarely.
func TestAwaitRemoval(t *testing.T) {
	isRemoved := map[types.UID]bool{}
	for n := range 100 {
		isRemoved[types.UID(fmt.Sprint(n))] = true
	}
	for name, tt := range map[string]struct {
		reason string
		every  time.Duration // one object is gone
		stop   int           // so many objects stay
		want   string
	}{
		"slow":   {"it takes hours, and the number falls", 9 * time.Minute, 0, ""},
		"stands": {"ten minutes without progress end it", time.Minute, 7, "7 resourceclaims.quota.miloapis.com are still being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				objects := &remaining{left: func() int { return max(tt.stop, 100-int(time.Since(began)/tt.every)) }}
				err := (&importer{metadata: objects}).awaitRemoval(t.Context(), claimsAPI, isRemoved)
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v after %s", tt.reason, err, time.Since(began))
				}
				if most := int(time.Since(began)/countInterval) + 10; objects.lists > most {
					t.Errorf("in %s it lists them %d times, want at most %d", time.Since(began), objects.lists, most)
				}
			})
		})
	}
}
