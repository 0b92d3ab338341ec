package enforce

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
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

// paid makes the claim of a policy for the object of [numbered], granted and settled.
func (s *scene) paid(policy string, amount ledger.Amount) *quotav1alpha1.ResourceClaim {
	s.Helper()
	consumer := organization("acme")
	intent := claims.Intent{
		Claim: types.NamespacedName{Namespace: "claims", Name: "claim-" + policy},
		Kind:  configMap, Object: types.NamespacedName{Namespace: "n", Name: "a"},
	}
	reservation := ledger.Reservation{
		Key: ledgerstore.ObjectKey(policy, "u"), Charges: []ledger.Charge{{ResourceType: "maps", Amount: amount}}, Claim: intent.Encode(),
	}
	decision, err := storagetest.Reserve(s.Context(), s.Store, consumer, reservation)
	if err != nil || decision.Code != ledger.Admitted {
		s.Fatalf("reserve: %s, %v", decision.Code, err)
	}
	reservation.Sequence = decision.Sequence
	claim, err := claims.FromReservation(ledgerstore.InFlight{Consumer: consumer, Reservation: reservation})
	if err != nil {
		s.Fatal(err)
	}
	claim.TypeMeta, claim.UID, claim.ResourceVersion = typeOf("ResourceClaim"), types.UID("uid-of-"+claim.Name), "1"
	claims.Grant(claim, s.Catalog, time.Now())
	s.Store.Settle(consumer, reservation.Key, reservation.Sequence)
	if err := s.Store.Flush(s.Context()); err != nil { // settling is lazy
		s.Fatal(err)
	}
	return claim
}
