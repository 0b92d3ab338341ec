package enforce

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/ledger"
)

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: kind}
}

// connect has updates find claims in an API server.
func (s *scene) connect(server *claimstest.Server) {
	s.Helper()
	client := server.Client(s.T)
	s.Engine.Client, s.Engine.Claims = client, claimcache.New()
	s.Claims = s.Engine.Claims
	go s.Claims.Run(s.Context(), client.REST())
}

// use has somebody's claim use an amount of acme.
func (s *scene) use(amount ledger.Amount) {
	s.Helper()
	held := inventory.Object{UID: "others", Version: 1, Demands: []inventory.Demand{{
		Consumer: organization("acme"), Charges: []ledger.Charge{{ResourceType: "maps", Amount: amount}},
	}}}
	seen := inventory.New()
	seen.Add(inventory.Claims, claims.ClaimSubject).Replace(ledger.Basis{Objects: 1}, slices.Values([]inventory.Object{held}))
	s.Store.Inventory = inventoryByHand{&watcher.Watcher{Inventory: seen}}
}
