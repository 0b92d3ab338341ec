package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestCreateWaitsForADeletionUnderWay creates at the limit while a finalizer still holds an object under deletion. Once
// Bursar knows of the deletion, the create waits for the end of that object, as it does for a plain deletion.
func TestCreateWaitsForADeletionUnderWay(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	held := w.configMap("0")
	held.Finalizers = []string{"example.com/hold"}
	w.mustCreate(held)
	for n := range 3 {
		w.mustDelete(held)
		next := w.configMap(fmt.Sprint(n + 1))
		next.Finalizers = held.Finalizers
		created := w.createThatWaits(next)

		w.liftFinalizers(held)

		if err := <-created; err != nil {
			t.Fatalf("create %d: %v", n+1, err)
		}
		held = next
	}
	w.mustDelete(held)
	w.liftFinalizers(held)
	w.wantBucket(1, 0, 1, 0)
}

// createThatWaits begins a create at the limit that waits for quota. Creates are denied until Bursar's watch shows that
// some is about to be free.
func (w *world) createThatWaits(object *corev1.ConfigMap) (created <-chan error) {
	w.Helper()
	const denialTakes = 500 * time.Millisecond
	eventually(w, func() error {
		result := make(chan error, 1)
		go func() { result <- admin.Create(w.ctx, object.DeepCopy()) }()
		select {
		case err := <-result:
			if !apierrors.IsForbidden(err) {
				w.Fatalf("create ConfigMap %s: got %v, want a denial or a wait", object.Name, err)
			}
			return errors.New("the create was denied at once")
		case <-time.After(denialTakes):
			created = result
			return nil
		}
	})
	return created
}
