package enforce

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
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
	s.api, s.Engine.Client, s.Engine.Claims = server, client, claimcache.New()
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

// Before the first list of claims, a review decides an update by the real claim of its object, or not at all.
func TestUpdateBeforeTheClaimsAreListed(t *testing.T) {
	tests := map[string]struct {
		reason string
		after  time.Duration
		// isFound reports whether the claim has the name of a new claim for the object.
		isFound bool
		check   func(*scene, *admissionv1.AdmissionResponse)
		want    ledger.Amount
	}{
		"it is found": {
			"by one more than it holds there is room for it", time.Minute, true,
			func(s *scene, answer *admissionv1.AdmissionResponse) {
				if !answer.Allowed {
					s.Errorf("refused: %s", answer.Result.Message)
				}
			}, 1,
		},
		"they come": {
			"by one more than it holds there is room for it", time.Second, false,
			func(s *scene, answer *admissionv1.AdmissionResponse) {
				if !answer.Allowed {
					s.Errorf("refused: %s", answer.Result.Message)
				}
			}, 1,
		},
		"they come late": {
			"nobody knows what it holds", time.Minute, false,
			func(s *scene, answer *admissionv1.AdmissionResponse) {
				s.wantDenied(answer, http.StatusServiceUnavailable, "the list of claims", "try again")
			}, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10)
				s.follow(quotav1alpha1.EnforcementModeEnforce, "true")
				claim := s.paid("acme", 6)
				if tt.isFound {
					claim.Name = claims.GeneratedName("acme-", "acme", "u")
				}
				server := claimstest.New(claim)
				list := server.HoldLists()
				s.connect(server)
				time.AfterFunc(tt.after, list)
				tt.check(s, s.update(s, false, numbered("1", 6), numbered("1", 7)))
				if reserved := s.reserved(); reserved != tt.want {
					t.Errorf("%s: %d is reserved, want %d", tt.reason, reserved, tt.want)
				}
				time.Sleep(tt.after)
				synctest.Wait()
			})
		})
	}
}

// An unknown claim is no reason to deny a smaller or unenforced update: the claim follows later.
func TestUpdatePassesThoughItsClaimIsNotFound(t *testing.T) {
	for name, tt := range map[string]struct {
		mode    quotav1alpha1.EnforcementMode
		after   int
		warning string
	}{
		"reduction":    {quotav1alpha1.EnforcementModeEnforce, 2, ""},
		"to nothing":   {quotav1alpha1.EnforcementModeEnforce, 0, ""},
		"not enforced": {quotav1alpha1.EnforcementModeWarn, 8, "charged later"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10)
				s.follow(tt.mode, "int(trigger.data.n) > 0")
				server := claimstest.New()
				list := server.HoldLists()
				server.Intercept(func(string, string) bool { return true })
				s.connect(server)
				answer := s.update(s, false, numbered("1", 6), numbered("1", tt.after))
				if warnings := strings.Join(answer.Warnings, " "); !answer.Allowed || !strings.Contains(warnings, tt.warning) || tt.warning == "" && warnings != "" {
					t.Errorf("answered %+v", answer)
				}
				s.wantChange("its claim has to follow", true, "1")
				list()
				synctest.Wait()
			})
		})
	}
}
