package watcher

import (
	"maps"
	"slices"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

var _ ledgerstore.Inventory = (*Watcher)(nil)

// Kinds implements [ledgerstore.Inventory].
func (w *Watcher) Kinds() []string {
	var names []string
	for _, kind := range w.Inventory.Kinds() {
		if _, isListed := kind.Basis(); isListed {
			names = append(names, kind.Name())
		}
	}
	return names
}

// Consumers implements [ledgerstore.Inventory].
func (w *Watcher) Consumers() []quotav1alpha1.ConsumerRef {
	all := map[quotav1alpha1.ConsumerRef]struct{}{}
	for _, kind := range w.Inventory.Kinds() {
		for _, consumer := range kind.Consumers() {
			all[consumer] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(all))
}

// View implements [ledgerstore.Inventory].
func (w *Watcher) View(kind string, consumer quotav1alpha1.ConsumerRef, look func(ledger.Observation, ledger.Observer)) bool {
	return w.Inventory.View(kind, consumer, func(v inventory.View) { look(v.Observation(), v) })
}

// IsListed implements [ledgerstore.Inventory].
func (w *Watcher) IsListed(kind string) bool {
	k := w.Inventory.Kind(kind)
	if k == nil {
		return false
	}
	_, isListed := k.Basis()
	return isListed
}

// HasSeen implements [ledgerstore.Inventory].
func (w *Watcher) HasSeen(awaits *ledger.Awaited) bool { return w.Inventory.HasSeen(awaits) }
