package enforce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
	"github.com/bursar/bursar/internal/naming"
)

// Quota held by failed creates does not count as used up: a request for it gets the advice to try again, with the
// amounts apart.
func TestHeldByCreatesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		var store func(types.UID)
		s.Objects, store = listed(t)
		for n, user := range []string{"ann", "ben"} {
			s.wantAllowed(s.reviewBy(authenticationv1.UserInfo{Username: user}, user, types.UID(fmt.Sprint(n+1))))
		}
		answer := s.review("3")
		s.wantDenied(answer, http.StatusTooManyRequests, "requests in flight hold 2 maps of the ConfigMap quota of Organization acme", "try again")
		if strings.Contains(answer.Result.Message, "exceeded") || answer.Result.Details.RetryAfterSeconds == 0 {
			t.Errorf("got %+v", answer.Result)
		}
		want := quotav1alpha1.DenialFigures{Requested: 1, Held: 2, Limited: 2}
		if got := quotav1alpha1.DenialsOf(&apierrors.StatusError{ErrStatus: *answer.Result}); len(got) != 2 || got[0].Reason != quotav1alpha1.CauseQuotaHeld || *got[0].Figures != want {
			t.Errorf("programs are told %+v, want %+v", got, want)
		}
		store("1")
		s.wantDenied(s.review("3"), http.StatusTooManyRequests, "hold 1 map of the ConfigMap quota")
		store("2")
		s.wantDenied(s.review("3"), http.StatusForbidden, "exceeded quota", "used: 2, limited: 2.")
	})
}

// A create at the limit waits for objects that are about to appear, and then knows that the quota is used up.
func TestDenialWaitsForObjectsAboutToAppear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		var store func(types.UID)
		s.Objects, store = listed(t)
		s.wantAllowed(s.review("1"))
		go func() {
			time.Sleep(appearsWithin / 4)
			store("1")
		}()
		s.wantDenied(s.review("2"), http.StatusForbidden, "used: 1, limited: 1")
	})
}

// An object may also appear right after the decision, while the answer is being made. Then the quota is used up, and
// nobody holds it.
func TestObjectAppearsAfterTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.policy("globex", "false")
		var store func(types.UID)
		s.Objects, store = listed(t)
		s.wantAllowed(s.reviewBy(authenticationv1.UserInfo{Username: "ann"}, "1", "1"))
		appears := sync.OnceFunc(func() { store("1") })
		s.Permissions = permissions(func(authorizationv1.ResourceAttributes) (bool, error) {
			appears() // the answer that others hold the quota is certain by now
			return true, nil
		})
		s.wantDenied(s.review("2"), http.StatusForbidden, "used: 1, limited: 1")
	})
}

// What requests in flight hold is not in use, also if the request would not fit without them.
func TestUsedIsWithoutHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 2)
		var store func(types.UID)
		s.Objects, store = listed(t)
		s.wantAllowed(s.review("1"))
		store("1")
		s.wantAllowed(s.review("2"))
		s.wantDenied(s.deny(t.Context(), &admissionv1.AdmissionRequest{}, []lack{{consumer: organization("acme"), shortages: []ledger.Shortage{
			{ResourceType: "maps", Requested: 3, Used: 2, Limit: 2, Matching: 2},
		}}}), http.StatusForbidden, "requested: 3 maps, used: 1, limited: 2 (held by requests in flight: 1)")
	})
}

// A request does not wait for quota of creates in flight in other dimensions, because that does not help it.
func TestHeldInOtherDimensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 0)
		s.Objects, _ = listed(t)
		in := func(region string) ledger.Dimensions {
			dimensions, err := ledger.NewDimensions(map[string]string{"region": region})
			if err != nil {
				t.Fatal(err)
			}
			return dimensions
		}
		only := func(region string) ledger.Selector {
			selector, err := ledger.NewSelector(ledger.Requirement{Key: "region", Operator: ledger.In, Values: []string{region}})
			if err != nil {
				t.Fatal(err)
			}
			return selector
		}

		acme := organization("acme")
		err := s.Store.SetGrants(t.Context(), acme, func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
			return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{
				{ResourceType: "maps", Selector: only("east"), Amount: 2}, {ResourceType: "maps", Selector: only("west"), Amount: 2},
			}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}

		charged := func(region string) []ledger.Charge {
			return []ledger.Charge{{ResourceType: "maps", Dimensions: in(region), Amount: 2}}
		}
		intent := claims.Intent{Kind: configMap, Object: types.NamespacedName{Namespace: "n", Name: "late"}}
		if _, err := storagetest.Reserve(t.Context(), s.Store, acme, ledger.Reservation{Key: ledgerstore.ObjectKey("acme", "late"), Charges: charged("east"), Claim: intent.Encode()}); err != nil {
			t.Fatal(err)
		}
		if _, err := storagetest.Reserve(t.Context(), s.Store, acme, ledger.Reservation{Key: ledgerstore.ClaimKey("used", 5), Charges: charged("west")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(appearsWithin)

		for region, want := range map[string]bool{"east": true, "west": false} {
			decision, err := storagetest.Reserve(t.Context(), s.Store, acme, ledger.Reservation{Key: ledgerstore.ObjectKey("acme", "new"), Charges: charged(region)})
			if err != nil || decision.Code != ledger.Exceeded {
				t.Fatalf("got %s, %v; want it to be exceeded", decision.Code, err)
			}
			held := s.checkHeld(t.Context(), &admissionv1.AdmissionRequest{}, []lack{{consumer: acme, shortages: decision.Shortages}})
			if (held != nil) != want {
				t.Errorf("in %s: got %v, want that it waits to be %t", region, held, want)
			}
		}
	})
}

// Without a readable ledger nobody knows whether waiting would help, so the client gets the advice to try again.
func TestHeldQuotaIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 1)
		s.Objects, _ = listed(t)
		if answer := s.review("1"); !answer.Allowed {
			t.Fatalf("refused: %s", answer.Result.Message)
		}
		time.Sleep(appearsWithin)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		shortage := ledger.Shortage{ResourceType: "maps", Requested: 1, Used: 1, Limit: 1, Matching: 1}
		lacks := []lack{{consumer: organization("acme"), shortages: []ledger.Shortage{shortage}}}
		answer := s.deny(ctx, &admissionv1.AdmissionRequest{}, lacks)
		if answer.Result.Code == http.StatusForbidden {
			t.Errorf("got %+v, want something that clients try again", answer.Result)
		}
	})
}

// While a kind is being listed, nobody knows which of its objects exist. Creates do not wait for it.
func TestCreatesWhileTheKindIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 100)
		s.Objects = absent()
		for n := range 32 {
			if answer := s.reviewNamed(fmt.Sprint(n), types.UID(fmt.Sprint(n))); !answer.Allowed {
				t.Fatalf("create %d is denied: %s", n, answer.Result.Message)
			}
			time.Sleep(appearsWithin / 2)
		}
	})
}

// An audited denial goes to the namespace of the object. Its readers may not know the figures of the consumer.
func TestAuditedDenialHidesFigures(t *testing.T) {
	s := newScene(t, 0)
	s.policy("globex", "false")
	s.Catalog.Policy("acme").Mode = quotav1alpha1.EnforcementModeAudit
	for namespace, want := range map[string]bool{"acme-quota": false, "n": true} {
		recorder := events.NewFakeRecorder(1)
		s.Events = recorder
		s.Catalog.ConsumerNamespaces = &naming.ConsumerNamespaces{System: namespace}
		if answer := s.review(types.UID(namespace)); !answer.Allowed {
			t.Fatalf("denied: %s", answer.Result.Message)
		}
		if got := <-recorder.Events; strings.Contains(got, "limited: 0") != want {
			t.Errorf("the quota is shown in namespace %s, and the event is %q", namespace, got)
		}
	}
}

// An object too large for storage takes nothing. The API server stores Kubernetes' own objects in a shorter form than
// in the request.
func TestTooLargeTakesNothing(t *testing.T) {
	s := newScene(t, 1)
	s.MaxObjectBytes = 64
	if answer := s.review("1"); !answer.Allowed {
		t.Errorf("a ConfigMap of more bytes is denied: %s", answer.Result.Message)
	}
	for group, want := range map[string]bool{"": false, "apps": false, "networking.k8s.io": false, "run.example.com": true} {
		if got := isStoredAsJSON(group); got != want {
			t.Errorf("objects of group %q are stored as they are sent: got %t", group, got)
		}
	}

	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "apps"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: "apps", Type: quotav1alpha1.RegistrationTypeEntity, BaseUnit: "app", DisplayUnit: "app", UnitConversionFactor: 1,
		ConsumerTypeRef:   quotav1alpha1.ConsumerTypeRef{APIGroup: "platform.example.com", Kind: "Organization"},
		ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: "run.example.com", Kind: "App"}},
	}}
	apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	s.Catalog.SetRegistration(registration)
	if errs := s.Catalog.SetPolicy(&quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "apps", Generation: 1}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{
			Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "run.example.com/v1", Kind: "App"},
			Operations: []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: "trigger.text != ''"}},
		},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{Spec: quotav1alpha1.ResourceClaimTemplateSpec{
			ConsumerRef: organization("acme"), Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "apps", Amount: 1}},
		}}},
	}}); len(errs) > 0 {
		t.Fatal(errs)
	}

	app := func(text string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion": "run.example.com/v1", "kind": "App", "metadata": {"name": "a", "namespace": "n", "uid": "u"}, "text": %q}`, text)}
	}
	for operation, old := range map[admissionv1.Operation]runtime.RawExtension{admissionv1.Create: {}, admissionv1.Update: app("")} {
		answer := s.ask(s.Handler, &admissionv1.AdmissionRequest{
			Operation: operation,
			Kind:      metav1.GroupVersionKind{Group: "run.example.com", Version: "v1", Kind: "App"},
			Resource:  metav1.GroupVersionResource{Group: "run.example.com", Version: "v1", Resource: "apps"},
			Object:    app(strings.Repeat("x", 64)), OldObject: old,
		})
		s.wantDenied(answer, http.StatusRequestEntityTooLarge, "at most 64", "no quota was taken")
		s.wantReservations(1, 1)
	}
}

// Programs distinguish denials without parsing their text.
func TestDenialsForPrograms(t *testing.T) {
	tests := map[string]struct {
		reason string
		review func(*scene) *admissionv1.AdmissionResponse
		want   quotav1alpha1.Denial
	}{
		"exceeded": {"figures are those of the consumer", func(s *scene) *admissionv1.AdmissionResponse {
			s.hold(s.Store, "globex")
			return s.review("1")
		}, quotav1alpha1.Denial{Reason: quotav1alpha1.CauseQuotaExceeded, ResourceType: "maps", Policies: []string{"globex"},
			Figures: &quotav1alpha1.DenialFigures{Requested: 1, Used: 1, Limited: 1}}},
		"nothing granted": {"it is told from exceeded", func(s *scene) *admissionv1.AdmissionResponse {
			s.policyFor("initech", "globex", "true")
			return s.review("1")
		}, quotav1alpha1.Denial{Reason: quotav1alpha1.CauseNothingGranted, ResourceType: "maps", Policies: []string{"globex"},
			Figures: &quotav1alpha1.DenialFigures{Requested: 1}}},
		"not applicable": {"the policy is named", func(s *scene) *admissionv1.AdmissionResponse {
			s.policy("globex", "object.data.size == 'large'")
			return s.review("1")
		}, quotav1alpha1.Denial{Reason: quotav1alpha1.CausePolicyNotApplicable, Policies: []string{"globex"}}},
		"full": {"it is told from exceeded", func(s *scene) *admissionv1.AdmissionResponse {
			s.memory.Fill(organization("globex"))
			return s.review("1")
		}, quotav1alpha1.Denial{Reason: quotav1alpha1.CauseLedgerFull, Policies: []string{"globex"}}},
		"undecided": {"to try again helps", func(s *scene) *admissionv1.AdmissionResponse {
			s.Ready = make(chan struct{})
			return s.review("1")
		}, quotav1alpha1.Denial{Reason: quotav1alpha1.CauseUndecided}},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			answer := tt.review(s)
			if answer.Allowed {
				t.Fatal("allowed")
			}
			got := quotav1alpha1.DenialsOf(&apierrors.StatusError{ErrStatus: *answer.Result})
			if len(got) != 1 || got[0].Reason != tt.want.Reason || got[0].ResourceType != tt.want.ResourceType || fmt.Sprint(got[0].Policies) != fmt.Sprint(tt.want.Policies) {
				t.Fatalf("%s: got %+v, want %+v", tt.reason, got, tt.want)
			}
			if want := tt.want.Figures; want != nil && (got[0].Figures == nil || *got[0].Figures != *want) {
				t.Errorf("%s: got figures %+v, want %+v", tt.reason, got[0].Figures, want)
			}
			if isRetriable := answer.Result.Details.RetryAfterSeconds > 0; isRetriable != (tt.want.Reason == quotav1alpha1.CauseUndecided) {
				t.Errorf("%s: retry after %d s", tt.reason, answer.Result.Details.RetryAfterSeconds)
			}
		})
	}

	if got := quotav1alpha1.DenialsOf(apierrors.NewForbidden(schema.GroupResource{}, "a", errors.New("no"))); got != nil {
		t.Errorf("somebody else denied it, and got %v", got)
	}
}

// Only readers of the consumer's effective grants see figures.
func TestFiguresAreForReaders(t *testing.T) {
	const figures = "used: 1, limited: 1"
	tests := map[string]struct {
		reason string
		may    func() (bool, error)
		want   bool
	}{
		"may":         {"everything is said", func() (bool, error) { return true, nil }, true},
		"may not":     {"no figures are said", func() (bool, error) { return false, nil }, false},
		"cannot tell": {"no figures are said", func() (bool, error) { return true, errors.New("no answer") }, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 1)
			s.Catalog.ConsumerNamespaces = &naming.ConsumerNamespaces{Templates: map[schema.GroupKind]string{{Group: "platform.example.com", Kind: "Organization"}: "org-{{name}}"}}
			asked := 0
			s.Permissions = permissions(func(what authorizationv1.ResourceAttributes) (bool, error) {
				if asked++; what.Resource != "effectiveresourcegrants" || what.Namespace != "org-globex" {
					t.Errorf("asked about %+v", what)
				}
				return tt.may()
			})

			s.hold(s.Store, "globex")
			for range 3 {
				answer := s.review("1")
				s.wantDenied(answer, http.StatusForbidden, "exceeded quota", "Organization globex")
				if got := strings.Contains(answer.Result.Message, figures); got != tt.want {
					t.Errorf("%s: %s", tt.reason, answer.Result.Message)
				}
				if denial := quotav1alpha1.DenialsOf(&apierrors.StatusError{ErrStatus: *answer.Result}); len(denial) != 1 || (denial[0].Figures != nil) != tt.want {
					t.Errorf("%s: programs are told %+v", tt.reason, denial)
				}
			}

			if tt.want && asked != 1 {
				t.Errorf("the API server was asked %d times, want once", asked)
			}
		})
	}
}

// permissions answers for any user.
type permissions func(authorizationv1.ResourceAttributes) (bool, error)

func (p permissions) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return p(what)
}

// denials are the notes on denials.
type denials []string

func (d *denials) RecordDenial(consumer quotav1alpha1.ConsumerRef, resourceType, note string) {
	*d = append(*d, consumer.Name+" "+resourceType+": "+note)
}

// The consumer's namespace gets a record of each denial, even if the answer hides the figures from the user.
func TestDenialsAreRecorded(t *testing.T) {
	s := newScene(t, 1)
	s.Permissions = permissions(func(authorizationv1.ResourceAttributes) (bool, error) { return false, nil })
	var notes denials
	s.Denials = &notes
	s.hold(s.Store, "globex")
	s.wantDenied(s.review("1"), http.StatusForbidden)
	if want := "globex maps: CREATE of ConfigMap n/map-1 by "; len(notes) != 1 || !strings.HasPrefix(notes[0], want) || !strings.Contains(notes[0], "used: 1, limited: 1") {
		t.Errorf("recorded %q, want one that begins with %q and has figures", notes, want)
	}
}
