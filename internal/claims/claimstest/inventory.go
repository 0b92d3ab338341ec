package claimstest

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

// Inventory is what the claims of a server demand as of each look.
type Inventory struct {
	t      testing.TB
	server *Server
	kind   *inventory.Kind
}

var _ ledgerstore.Inventory = (*Inventory)(nil)

// Inventory returns an inventory that has no delay.
func (s *Server) Inventory(t testing.TB) *Inventory {
	return &Inventory{t: t, server: s, kind: inventory.NewKind(inventory.Claims, claims.ClaimSubject)}
}

// look brings the inventory up to the server.
func (i *Inventory) look() *inventory.Kind {
	i.server.mu.Lock()
	version := ledger.Version(1 + len(i.server.events))
	i.server.mu.Unlock()

	var objects []inventory.Object
	for _, stored := range i.server.List() {
		o, err := claims.CountedObjectOf(claimcache.Compact(stored))
		if err != nil {
			i.t.Error(err)
		}
		version = max(version, o.Version) // it may have changed meanwhile
		objects = append(objects, o)
	}

	i.kind.Replace(ledger.Basis{Objects: version}, slices.Values(objects))
	return i.kind
}

// Kinds implements [ledgerstore.Inventory].
func (i *Inventory) Kinds() []string { return []string{inventory.Claims} }

// Consumers implements [ledgerstore.Inventory].
func (i *Inventory) Consumers() []quotav1alpha1.ConsumerRef { return i.look().Consumers() }

// View implements [ledgerstore.Inventory].
func (i *Inventory) View(kind string, consumer quotav1alpha1.ConsumerRef, look func(ledger.Observation, ledger.Observer)) bool {
	return kind == inventory.Claims && i.look().View(consumer, func(v inventory.View) { look(v.Observation(), v) })
}

// IsListed implements [ledgerstore.Inventory].
func (i *Inventory) IsListed(kind string) bool { return kind == inventory.Claims }

// HasSeen implements [ledgerstore.Inventory].
func (i *Inventory) HasSeen(awaits *ledger.Awaited) bool {
	v := i.look().VisibilityOf(types.UID(awaits.ID))
	return v.IsDeleted || v.Version > awaits.After
}

// IsRetired implements [ledgerstore.Inventory].
func (i *Inventory) IsRetired(string, ledger.Basis) bool { return false }

// CatchUp implements [ledgerstore.Inventory].
func (i *Inventory) CatchUp(context.Context, []string) error { return nil }

// Refresh implements [ledgerstore.Inventory].
func (i *Inventory) Refresh() {}
