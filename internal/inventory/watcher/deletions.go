package watcher

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// deletions tells a listener which objects of a kind are being deleted. All watches of the kind share it, so a deletion
// that one of them saw begin ends with another.
type deletions struct {
	listener Listener

	mu sync.Mutex
	// consumers are those of whom the objects demanded something when their deletion began.
	consumers map[types.UID][]quotav1alpha1.ConsumerRef
}

func newDeletions(listener Listener) *deletions {
	return &deletions{listener: listener, consumers: map[types.UID][]quotav1alpha1.ConsumerRef{}}
}

// begin notes that an object is being deleted.
func (d *deletions) begin(o *counted) {
	d.mu.Lock()
	_, isKnown := d.consumers[o.UID]
	consumers := consumersOf(o.Demands)
	if !isKnown {
		d.consumers[o.UID] = consumers
	}
	d.mu.Unlock()
	if !isKnown {
		d.listener.DeletionBegan(o.UID, consumers)
	}
}

// end notes that an object is gone, or that it counts no longer.
func (d *deletions) end(uid types.UID) {
	d.mu.Lock()
	consumers, isKnown := d.consumers[uid]
	delete(d.consumers, uid)
	d.mu.Unlock()
	if isKnown {
		d.listener.DeletionEnded(uid, consumers)
	}
}

// replace ends the deletions of all objects that are not in a list, and begins those of the list.
func (d *deletions) replace(all []*counted) {
	deleting := map[types.UID]bool{}
	for _, o := range all {
		if o.isDeleting {
			deleting[o.UID] = true
			d.begin(o)
		}
	}
	for _, uid := range d.known() {
		if !deleting[uid] {
			d.end(uid)
		}
	}
}

func (d *deletions) known() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.consumers))
}
