package enforce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// follow makes the policy acme the only one, and has it follow the number in a ConfigMap.
func (s *scene) follow(mode quotav1alpha1.EnforcementMode, condition string) {
	s.Helper()
	s.followAnnotated(mode, condition, nil)
}

// followAnnotated is follow with annotations for the claims.
func (s *scene) followAnnotated(mode quotav1alpha1.EnforcementMode, condition string, annotations map[string]string) {
	s.Helper()
	s.Catalog.RemovePolicy("globex")
	s.policies++
	errs := s.Catalog.SetPolicy(&quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "acme", Generation: s.policies},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			EnforcementMode: mode,
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Operations: []quotav1alpha1.TriggerOperation{quotav1alpha1.TriggerOperationCreate, quotav1alpha1.TriggerOperationUpdate},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: condition}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Namespace: "claims", Annotations: annotations},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: organization("acme"),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "maps", AmountExpression: "int(trigger.data.n)"}},
				},
			}},
		},
	})
	if len(errs) > 0 {
		s.Fatal(errs.ToAggregate())
	}
	s.connect(claimstest.New())
}

// wantChange checks from which version on the engine expects a change of the object of [numbered], if it expects one.
func (s *scene) wantChange(reason string, isExpected bool, base string) {
	s.Helper()
	if change, is := s.Engine.ChangeOf("u"); is != isExpected || change.Base != base {
		s.Errorf("%s: expected to change: %t from version %q, want %t from %q", reason, is, change.Base, isExpected, base)
	}
}

// numbered is a ConfigMap with a number in it.
func numbered(version string, n int) runtime.RawExtension {
	return runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":%q},"data":{"n":"%d"}}`, version, n)}
}

// update has a handler review a change of the number.
func (s *scene) update(handler http.Handler, dryRun bool, before, after runtime.RawExtension) *admissionv1.AdmissionResponse {
	s.Helper()
	return s.ask(handler, &admissionv1.AdmissionRequest{Operation: admissionv1.Update, DryRun: &dryRun, Object: after, OldObject: before})
}

// createNumbered reviews the create of a ConfigMap with a number.
func (s *scene) createNumbered(dryRun bool, n int) *admissionv1.AdmissionResponse {
	s.Helper()
	return s.ask(s, &admissionv1.AdmissionRequest{Operation: admissionv1.Create, DryRun: &dryRun, Object: numbered("", n)})
}

// ask has a handler review a request. It is about the ConfigMap with a number unless it names another kind.
func (s *scene) ask(handler http.Handler, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	s.Helper()
	request.UID, request.Namespace, request.Name = "round-trip", "n", "a"
	if request.Kind.Kind == "" {
		request.Kind = metav1.GroupVersionKind(configMap)
		request.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Request: request})
	if err != nil {
		s.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/?timeout=6s", bytes.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		s.Fatalf("answered %d %s: %v", recorder.Code, recorder.Body, err)
	}
	return review.Response
}

// reserved returns the reserved amount of acme's quota.
func (s *scene) reserved() (sum ledger.Amount) {
	for _, r := range s.memory.Snapshot(organization("acme")).Reservations {
		for _, charge := range r.Charges {
			sum += charge.Amount
		}
	}
	return sum
}

// The ledger has the change of an update before the API server makes it, even with a lower demand: the reviewing
// replica may die before the API server stores the update.
func TestEveryReplicaKnowsOfAChange(t *testing.T) {
	tests := map[string]struct {
		reason string
		after  int
		more   ledger.Amount
	}{
		"raise":      {"the difference is held", 8, 2},
		"reduction":  {"nothing is held beside what there is", 2, 0},
		"to nothing": {"nothing is held beside what there is", 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10)
				s.follow(quotav1alpha1.EnforcementModeEnforce, "int(trigger.data.n) > 0")
				claim := s.paid("acme", 6)
				s.connect(claimstest.New(claim))
				if answer := s.update(s, false, numbered("1", 6), numbered("1", tt.after)); !answer.Allowed {
					t.Fatalf("refused: %s", answer.Result.Message)
				}
				inFlight := s.memory.Snapshot(organization("acme")).Reservations
				if len(inFlight) != 1 || inFlight[0].Key != ledgerstore.AmendmentKey("acme", "u") || inFlight[0].Replaces[0].Amount != 6 {
					t.Errorf("in flight: %+v, want one amendment of the claim", inFlight)
				}
				if held := s.reserved(); held != tt.more {
					t.Errorf("%s: %d", tt.reason, held)
				}
			})
		})
	}
}

// A review extends a reservation for an earlier change only until its claim exists. From then on it belongs to that
// claim, even before the cache has the claim.
func TestReservationOfAMadeClaimIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 10)
		s.follow(quotav1alpha1.EnforcementModeEnforce, "trigger.data.n != '0'")
		if answer := s.update(s, false, numbered("1", 0), numbered("1", 5)); !answer.Allowed {
			t.Fatalf("refused: %s", answer.Result.Message)
		}
		before := s.memory.Snapshot(organization("acme")).Reservations
		made, err := claims.FromReservation(s.Store.ReservationsFor("u")[0])
		if err != nil {
			t.Fatal(err)
		}
		s.api.Put(made)
		s.wantDenied(s.update(s, false, numbered("2", 5), numbered("2", 7)), http.StatusServiceUnavailable, "still being recorded", "try again")
		if diff := cmp.Diff(before, s.memory.Snapshot(organization("acme")).Reservations, cmpopts.EquateComparable(ledger.Dimensions{})); diff != "" {
			t.Errorf("the reservation changed (-before +after):\n%s", diff)
		}
		s.api.Remove(made.Name)
		if answer := s.update(s, false, numbered("2", 5), numbered("2", 7)); !answer.Allowed {
			t.Fatalf("refused: %s", answer.Result.Message)
		}
		if after := s.memory.Snapshot(organization("acme")).Reservations; len(after) != 1 || after[0].Charges[0].Amount != 7 {
			t.Errorf("got %+v, want one reservation of 7", after)
		}
	})
}

// The engine expects a change without a decision, so the claim follows it all the same.
func TestUndecidedUpdatesAreFollowed(t *testing.T) {
	const speaksOfNamespace = "namespaceObject.metadata.name != 'x'"
	tests := map[string]struct {
		reason    string
		condition string
		handler   func(*scene) http.Handler
		dryRun    bool
		// fail breaks something.
		fail func(*scene)
		want bool
	}{
		"namespace unknown": {
			"the policy cannot be asked", speaksOfNamespace, (*scene).advise, false,
			func(s *scene) { s.Evaluator.Namespaces = nowhere{} }, true,
		},
		"namespace unknown, dry run": {
			"nothing will change", speaksOfNamespace, (*scene).advise, true,
			func(s *scene) { s.Evaluator.Namespaces = nowhere{} }, false,
		},
		"namespace of the claim unknown": {
			"the policy cannot be applied now", "true", (*scene).advise, false,
			func(s *scene) { s.Evaluator.Namespaces = withoutState{} }, true,
		},
		"still loading": {
			"the policies are not known", "true", (*scene).advise, false,
			func(s *scene) { s.Ready = make(chan struct{}) }, true,
		},
		"object locked": {
			"what it holds is being changed all the time", "true", (*scene).advise, false,
			func(s *scene) {
				unlock, err := s.Store.LockObject(s.Context(), "u")
				if err != nil {
					s.Fatal(err)
				}
				s.Cleanup(unlock)
			}, true,
		},
		"broken glass": {
			"nobody decides", "true", (*scene).breakGlass, false, func(*scene) {}, true,
		},
		"broken glass, dry run": {
			"nothing will change", "true", (*scene).breakGlass, true, func(*scene) {}, false,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10)
				s.follow(quotav1alpha1.EnforcementModeWarn, tt.condition)
				tt.fail(s)
				if answer := s.update(tt.handler(s), tt.dryRun, numbered("7", 1), numbered("7", 4)); !answer.Allowed {
					t.Errorf("refused: %s", answer.Result.Message)
				}
				base := ""
				if tt.want {
					base = "7"
				}
				s.wantChange(tt.reason, tt.want, base)
			})
		})
	}
}

func (s *scene) advise() http.Handler     { return s.Advise() }
func (s *scene) breakGlass() http.Handler { return s.BreakGlass() }

// withoutState cannot tell whether a namespace is being deleted.
type withoutState struct{ everywhere }

func (withoutState) Active(context.Context, string) (bool, error) {
	return false, errors.New("the API server does not answer")
}

// The status of the claim, written by any user, does not affect the enforcement of updates.
func TestUpdateIsEnforcedWhateverTheStatusOfTheClaim(t *testing.T) {
	s := newScene(t, 3)
	s.followAnnotated(quotav1alpha1.EnforcementModeEnforce, "true", map[string]string{"example.com/group": "{{index .user.groups 0}}"})
	s.wantDenied(s.update(s, false, numbered("1", 1), numbered("1", 5)), http.StatusForbidden, "exceeded quota", "requested: 5", "limited: 3")
	if answer := s.update(s, false, numbered("1", 1), numbered("1", 2)); !answer.Allowed || len(answer.Warnings) > 0 {
		t.Errorf("what fits gets the answer %+v", answer)
	}
}

// While an enforcing policy is not applicable, no update passes.
func TestUndecidedUpdatesAreDenied(t *testing.T) {
	s := newScene(t, 10)
	s.follow(quotav1alpha1.EnforcementModeEnforce, "true")
	s.Evaluator.Namespaces = withoutState{}
	s.wantDenied(s.update(s, false, numbered("7", 1), numbered("7", 4)), http.StatusServiceUnavailable, "the API server does not answer", "try again")
}

// A scale is an update of another object. That may not be readable just then.
func TestUndecidedScaleIsFollowed(t *testing.T) {
	s := newScene(t, 10)
	s.follow(quotav1alpha1.EnforcementModeWarn, "true")
	s.Kinds = deployments{}
	scale := runtime.RawExtension{Raw: []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"7"},"spec":{"replicas":1}}`)}
	request := &admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, SubResource: "scale", Kind: metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		Resource: metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, OldObject: scale, Object: scale,
	}
	s.expectUndecided(request)
	s.wantChange("the Deployment is scaled", true, "7")
	if change, _ := s.Engine.ChangeOf("u"); change.Object.Kind.Kind != "Deployment" {
		t.Errorf("a %s is expected to change", change.Object.Kind)
	}
}

// deployments serves nothing else.
type deployments struct{ Kinds }

func (deployments) KindOf(_ context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, bool, error) {
	return resource.GroupVersion().WithKind("Deployment"), resource.Resource == "deployments", nil
}
