package audit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/tally"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

var acme = quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "acme"}

// scene is the ledger of one consumer, its claims, and the auditor.
type scene struct {
	*testing.T
	auditor *Auditor
	store   *ledgerstore.Store
	// storage is where the store keeps them.
	storage *storagetest.Connection
	// cached and live are the claims as followed and as listed.
	cached, live []*claimcache.Claim
	// onLook runs at each look at the claims.
	onLook func()
	// onList runs at each list of the claims.
	onList func()
	events []string
	// reinspected are the claims given to the engine.
	reinspected []string
}

func (s *scene) Reinspect(_ context.Context, claim *claimcache.Claim) error {
	s.reinspected = append(s.reinspected, string(claim.UID))
	return nil
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, onLook: func() {}, onList: func() {}}
	memory := storagetest.New()
	s.storage = memory.Connect(nil)
	s.store = ledgerstore.New(t.Context(), s.storage)
	s.auditor = New(Options{
		Ledgers: s.store, Claims: s, Engine: s, Events: s, Recheck: time.Millisecond,
		Stored: storedScene{s, memory},
	})
	return s
}

// storedScene is the API server's state.
type storedScene struct {
	*scene
	memory *storagetest.Memory
}

func (s storedScene) Ledgers(context.Context) ([]Ledger, error) {
	l := Ledger{Consumer: acme, UID: "u"}
	l.readLedger(s.memory.Snapshot(acme))
	return []Ledger{l}, nil
}

func (s storedScene) ClaimsWhile(_ context.Context, _ quotav1alpha1.ConsumerRef, goOn func() bool) ([]*claimcache.Claim, bool, error) {
	s.onList()
	if !goOn() {
		return nil, false, nil
	}
	return s.live, true, nil
}

func (s *scene) WaitForSync(context.Context) error { return nil }

func (s *scene) ForConsumer(quotav1alpha1.ConsumerRef, func(*claimcache.Claim) bool) []*claimcache.Claim {
	s.onLook()
	return s.cached
}

func (s *scene) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	s.events = append(s.events, reason+": "+fmt.Sprintf(note, args...))
}

// charge adds usage of projects to the ledger without a claim.
func (s *scene) charge(amount, claims int64) {
	s.Helper()
	had := ledger.Usage{ResourceType: "projects"}
	for _, u := range s.used() {
		had = u
	}
	ok, err := s.store.Correct(s.Context(), acme, had, ledger.Usage{ResourceType: "projects", Amount: ledger.Amount(amount), Claims: claims})
	if err != nil || !ok {
		s.Fatalf("cannot charge: %v, %v", ok, err)
	}
}

func (s *scene) used() (used []ledger.Usage) {
	s.Helper()
	err := s.store.View(s.Context(), acme, func(l *ledger.Ledger) { used = l.Snapshot().Used })
	if err != nil {
		s.Fatal(err)
	}
	return used
}

func claimFor(uid string, amount int64, change ...func(*quotav1alpha1.ResourceClaim)) *claimcache.Claim {
	claim := &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c" + uid, UID: types.UID(uid), Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease}},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: acme, Requests: []quotav1alpha1.ResourceRequest{{ResourceType: "projects", Amount: amount}},
		},
		Status: quotav1alpha1.ResourceClaimStatus{Conditions: []metav1.Condition{
			{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue},
		}},
	}
	fromPolicy("other", "object of "+uid, 0)(claim)
	for _, f := range change {
		f(claim)
	}
	return claimcache.Compact(claim)
}

func fromPolicy(policy, object string, sequence int64) func(*quotav1alpha1.ResourceClaim) {
	return func(c *quotav1alpha1.ResourceClaim) {
		c.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: policy}
		c.Annotations = map[string]string{quotav1alpha1.AnnotationResourceUID: object, quotav1alpha1.AnnotationReservation: fmt.Sprint(sequence)}
	}
}

func usage(amount, claims int64) []ledger.Usage {
	return []ledger.Usage{{ResourceType: "projects", Amount: ledger.Amount(amount), Claims: claims}}
}

func TestAudit(t *testing.T) {
	two := []*claimcache.Claim{claimFor("1", 2), claimFor("2", 3)}
	direct := claimFor("3", 7, func(c *quotav1alpha1.ResourceClaim) { c.Labels, c.Annotations = nil, nil })
	reserve := func(s *scene, key string) (sequence int64) {
		outcome, err := s.store.Apply(s.Context(), acme, ledgerstore.Request{
			Reservations: []ledger.Reservation{{Key: key, ReservedAt: 1, Charges: []ledger.Charge{{ResourceType: "projects", Amount: 7}}}}, Overdraft: true,
		})
		if err != nil {
			s.Fatal(err)
		}
		return outcome.Single().Sequence
	}
	tests := map[string]struct {
		reason string
		setup  func(s *scene)
		want   []ledger.Usage
		result result
		events []string
	}{
		"agree": {
			reason: "a correct ledger stays as it is",
			setup:  func(s *scene) { s.charge(5, 2); s.cached, s.live = two, two },
			want:   usage(5, 2), result: clean,
		},
		"missing": {
			reason: "usage missing in the ledger is charged once a list confirms it",
			setup:  func(s *scene) { s.charge(2, 1); s.cached, s.live = two, two },
			want:   usage(5, 2), result: drifted,
			events: []string{"LedgerDrift: The ledger differs from the granted claims; balances: 1, corrected: 1; " +
				"the first is projects: the ledger has 2 used (claims: 1), the claims hold 5 (claims: 2)"},
		},
		"too much": {
			reason: "usage that no claim holds is given back once a list confirms it",
			setup:  func(s *scene) { s.charge(9, 3); s.cached, s.live = two, two },
			want:   usage(5, 2), result: drifted,
			events: []string{"LedgerDrift: The ledger differs from the granted claims; balances: 1, corrected: 1; " +
				"the first is projects: the ledger has 9 used (claims: 3), the claims hold 5 (claims: 2)"},
		},
		"too much, says a cache that is late": {
			reason: "the list knows a claim that the cache has not seen yet",
			setup:  func(s *scene) { s.charge(5, 2); s.cached, s.live = two[:1], two },
			want:   usage(5, 2), result: clean,
		},
		"missing, says a cache that is late": {
			reason: "the cache still has a claim that was released and is gone",
			setup:  func(s *scene) { s.charge(2, 1); s.cached, s.live = two, two[:1] },
			want:   usage(2, 1), result: clean,
		},
		"a cache that catches up": {
			reason: "nothing is listed once the cache agrees",
			setup: func(s *scene) {
				s.charge(5, 2)
				s.cached = two[:1]
				looks := 0
				s.onLook = func() {
					if looks++; looks == 3 {
						s.cached = two
					}
				}
				s.onList = func() { s.Error("the claims were listed") }
			},
			want: usage(5, 2), result: clean,
		},
		"released and not gone": {
			reason: "a claim without the finalizer holds nothing any more",
			setup: func(s *scene) {
				now := metav1.Now()
				s.charge(2, 1)
				s.cached = []*claimcache.Claim{two[0], claimFor("3", 7, func(c *quotav1alpha1.ResourceClaim) { c.DeletionTimestamp, c.Finalizers = &now, nil })}
			},
			want: usage(2, 1), result: clean,
		},
		"in flight": {
			reason: "claims that are granted and not settled yet are left out",
			setup: func(s *scene) {
				s.charge(5, 2)
				s.cached = append(two, claimFor("4", 7, fromPolicy("p", "o", reserve(s, ledgerstore.ObjectKey("p", "o")))))
			},
			want: usage(5, 2), result: clean,
		},
		"created directly": {
			reason: "the ledger observes it",
			setup: func(s *scene) {
				s.charge(5, 2)
				s.cached = append(two, direct)
			},
			want: usage(5, 2), result: clean,
		},
		"created directly, and others have drifted": {
			reason: "the list is the same",
			setup: func(s *scene) {
				s.charge(2, 1)
				s.live = append(two, direct)
				s.cached = s.live
			},
			want: usage(5, 2), result: drifted,
			events: []string{"LedgerDrift: The ledger differs from the granted claims; balances: 1, corrected: 1; " +
				"the first is projects: the ledger has 2 used (claims: 1), the claims hold 5 (claims: 2)"},
		},
		"drifted with something in flight": {
			reason: "what drifted is put right, whatever else goes on",
			setup: func(s *scene) {
				s.charge(2, 1)
				s.live = append(two, claimFor("4", 7, fromPolicy("p", "o", reserve(s, ledgerstore.ObjectKey("p", "o")))))
				s.cached = s.live
			},
			want: usage(5, 2), result: drifted,
			events: []string{"LedgerDrift: The ledger differs from the granted claims; balances: 1, corrected: 1; " +
				"the first is projects: the ledger has 2 used (claims: 1), the claims hold 5 (claims: 2)"},
		},
		"reserved again": {
			reason: "a claim that was made from an earlier reservation is settled",
			setup: func(s *scene) {
				s.charge(5, 2)
				s.cached = append(two[:1:1], claimFor("4", 3, fromPolicy("p", "o", reserve(s, ledgerstore.ObjectKey("p", "o"))-1)))
			},
			want: usage(5, 2), result: clean,
		},
		"released and in the cache": {
			reason: "it was given back, or never taken",
			setup: func(s *scene) {
				s.charge(5, 2)
				if _, err := s.store.Release(s.Context(), acme, "2", func(context.Context) (*ledgerstore.ClaimCharges, error) {
					return &ledgerstore.ClaimCharges{ClaimUID: "2", Granted: true, Charges: []ledger.Charge{{ResourceType: "projects", Amount: 3}}}, nil
				}); err != nil {
					s.Fatal(err)
				}
				withdrawn := reserve(s, ledgerstore.ObjectKey("p", "o"))
				if _, err := s.store.Withdraw(s.Context(), acme, ledgerstore.ObjectKey("p", "o"), withdrawn); err != nil {
					s.Fatal(err)
				}
				s.cached = append(two, claimFor("4", 7, fromPolicy("p", "o", withdrawn)))
			},
			want: usage(2, 1), result: clean,
		},
		"something happens with every list": {
			reason: "what cannot be compared is left alone",
			setup: func(s *scene) {
				s.charge(2, 1)
				reserve(s, "k")
				s.cached, s.live = two, two
				s.onList = func() { reserve(s, fmt.Sprint("k", time.Now())) }
			},
			want: usage(2, 1), result: busy,
		},
		"a cache that catches up during a list in vain": {
			reason: "no other list is needed",
			setup: func(s *scene) {
				s.charge(5, 2)
				reserve(s, "k")
				s.cached = two[:1]
				s.onList = func() {
					reserve(s, "k2")
					s.cached = two
				}
			},
			want: usage(5, 2), result: clean,
		},
		"a cache that is late beside something in flight": {
			reason: "the list knows better",
			setup: func(s *scene) {
				s.charge(5, 2)
				reserve(s, "k")
				s.cached, s.live = two[:1], two
			},
			want: usage(5, 2), result: clean,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			tt.setup(s)
			if err := s.auditor.audit(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.onLook = func() {}
			if diff := cmp.Diff(tt.want, s.used(), cmp.AllowUnexported(ledger.Dimensions{})); diff != "" {
				t.Errorf("%s: usage (-want +got):\n%s", tt.reason, diff)
			}
			if diff := cmp.Diff(tt.events, s.events); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", tt.reason, diff)
			}
			for _, r := range []result{clean, busy, drifted, failed} {
				want := 0.0
				if r == tt.result {
					want = 1
				}
				if got := testutil.ToFloat64(s.auditor.metrics.audits.WithLabelValues(string(r))); got != want {
					t.Errorf("%s: %v audits came to %s, want %v", tt.reason, got, r, want)
				}
			}
		})
	}
}

// The audit reads storage only for ledgers with a difference from the claims or with something in flight, as of their
// list.
func TestAgreeingLedgersAreNotRead(t *testing.T) {
	one := []*claimcache.Claim{claimFor("1", 2)}
	inFlight := func(s *scene) {
		_, err := s.store.Apply(s.Context(), acme, ledgerstore.Request{
			Reservations: []ledger.Reservation{{Key: "k", ReservedAt: 1, Charges: []ledger.Charge{{ResourceType: "projects", Amount: 7}}}}, Overdraft: true,
		})
		if err != nil {
			s.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		setup  func(*scene)
		cached []*claimcache.Claim
		asked  bool
	}{"agree": {func(*scene) {}, one, false}, "differ": {func(*scene) {}, nil, true}, "in flight": {inFlight, one, true}} {
		s := newScene(t)
		s.charge(2, 1)
		tt.setup(s)
		s.cached, s.live = tt.cached, one
		asked := func() int { return s.storage.Calls(storagetest.Read) + s.storage.Calls(storagetest.CurrentVersion) }
		before := asked()
		if err := s.auditor.audit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := asked() > before; got != tt.asked {
			t.Errorf("%s: that storage is asked is %t, want %t", name, got, tt.asked)
		}
	}
}

// A claim with a withdrawn sequence counts nowhere. The audit gives it to the engine: the withdrawing replica may have
// died before it removed the claim.
func TestWithdrawnClaims(t *testing.T) {
	for name, tt := range map[string]struct {
		reason         string
		amount, claims int64
		events         int
	}{
		"no drift": {"the ledger agrees with the other claims", 5, 2, 0},
		"drift":    {"the ledger is corrected to the other claims, also by a list", 12, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			key := ledgerstore.ObjectKey("p", "o")
			outcome, err := s.store.Apply(t.Context(), acme, ledgerstore.Request{
				Reservations: []ledger.Reservation{{Key: key, Charges: []ledger.Charge{{ResourceType: "projects", Amount: 7}}}}, Overdraft: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			sequence := outcome.Decisions[0].Sequence
			if _, err := s.store.Withdraw(t.Context(), acme, key, sequence); err != nil {
				t.Fatal(err)
			}
			s.charge(tt.amount, tt.claims)
			s.cached = []*claimcache.Claim{claimFor("1", 2), claimFor("2", 3), claimFor("late", 7, fromPolicy("p", "o", sequence))}
			s.live = s.cached
			if err := s.auditor.audit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(usage(5, 2), s.used(), cmp.AllowUnexported(ledger.Dimensions{})); diff != "" || len(s.events) != tt.events {
				t.Errorf("%s: usage (-want +got):\n%s\nevents: %v", tt.reason, diff, s.events)
			}
			if diff := cmp.Diff([]string{"late"}, s.reinspected); diff != "" {
				t.Errorf("given to the engine (-want +got):\n%s", diff)
			}
		})
	}
}

// Counters exist before their first count: an alert on an increase needs the value before.
func TestCountersBeginAtZero(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newScene(t).auditor.Collectors()...)
	for name, want := range map[string]int{"bursar_ledger_drift_total": 4, "bursar_ledger_audits_total": 4} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != want {
			t.Errorf("%s has %d series at first, want %d: %v", name, got, want, err)
		}
	}
}

func TestUsageRejectsOverflow(t *testing.T) {
	_, err := tally.Usage([]*claimcache.Claim{claimFor("1", int64(ledger.AmountMax)), claimFor("2", 1)}, nil)
	if err == nil {
		t.Error("a sum that does not fit was added up")
	}
}
