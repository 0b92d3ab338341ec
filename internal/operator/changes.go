package operator

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// changes delivers an event after changes, without their content: an undelivered event covers all later changes.
type changes chan event.TypedGenericEvent[client.Object]

func newChanges() changes { return make(changes, 1) }

func (c changes) notify() {
	select {
	case c <- event.TypedGenericEvent[client.Object]{Object: &quotav1alpha1.ResourceRegistration{}}:
	default:
	}
}
