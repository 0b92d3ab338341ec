package enforce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimstest"
	"github.com/bursar/bursar/internal/ledger"
)

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// follow makes the policy acme the only one, and has it follow the number in a ConfigMap.
func (s *scene) follow(mode quotav1alpha1.EnforcementMode, condition string) {
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
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Namespace: "claims"},
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

// The ledger holds what an update adds before the API server makes it: the reviewing replica may die before the API
// server stores the update.
func TestUpdateReservesWhatItAdds(t *testing.T) {
	tests := map[string]struct {
		reason string
		after  int
		more   ledger.Amount
	}{
		"raise":      {"the difference is held", 8, 2},
		"reduction":  {"nothing is held beside what is counted", 2, 0},
		"to nothing": {"nothing is held beside what is counted", 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10)
				s.follow(quotav1alpha1.EnforcementModeEnforce, "int(trigger.data.n) > 0")
				if answer := s.update(s, false, numbered("1", 6), numbered("1", tt.after)); !answer.Allowed {
					t.Fatalf("refused: %s", answer.Result.Message)
				}
				if held := s.reserved(); held != tt.more {
					t.Errorf("%s: %d", tt.reason, held)
				}
			})
		})
	}
}

// While an enforcing policy is not applicable, no update passes.
func TestUndecidedUpdatesAreDenied(t *testing.T) {
	s := newScene(t, 10)
	s.follow(quotav1alpha1.EnforcementModeEnforce, "namespaceObject.metadata.name != 'x'")
	s.Evaluator.Namespaces = nowhere{}
	s.wantDenied(s.update(s, false, numbered("7", 1), numbered("7", 4)), http.StatusServiceUnavailable, "try again")
}
