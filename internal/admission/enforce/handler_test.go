package enforce

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/engine"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/inventory/watcher"
	"github.com/bursar/bursar/internal/kube/objectcache"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/ledger/ledgerstore/storagetest"
)

// scene is a handler with ledgers in memory. The Organizations acme and globex pay for ConfigMaps, by one policy
// each.
type scene struct {
	*testing.T
	*Handler
	memory *storagetest.Memory
	// policies is the number of set policies, and the generation of the latest.
	policies int64
	// fault returns the failures of calls to storage from now on.
	fault func(storagetest.Call) storagetest.Fault
	// patience is the timeout of each review. Default: short, for tests that exhaust it.
	patience time.Duration
}

var organizations = []string{"acme", "globex"}

// reviewType is the type of every review.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

func organization(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: name}
}

// everywhere has all namespaces.
type everywhere struct{}

func (everywhere) Active(context.Context, string) (bool, error) { return true, nil }
func (everywhere) Object(_ context.Context, name string) (map[string]any, error) {
	return map[string]any{"metadata": map[string]any{"name": name}}, nil
}

// alone is a replica without others.
type alone struct{}

func (alone) Forward(context.Context, quotav1alpha1.ConsumerRef, string, []byte) ([]byte, bool) {
	return nil, false
}

func (alone) ForwardToAny(context.Context, string, []byte) ([]byte, bool) { return nil, false }

// open is a gate without a wait.
type open struct{}

func (open) Wait(context.Context, catalog.Version) error { return nil }

func newScene(t *testing.T, limit ledger.Amount) *scene {
	s := &scene{T: t, memory: storagetest.New(), fault: func(storagetest.Call) storagetest.Fault { return storagetest.None }}
	store := ledgerstore.New(t.Context(), s.memory.Connect(func(_ context.Context, call storagetest.Call) storagetest.Fault { return s.fault(call) }))
	ready := make(chan struct{})
	close(ready)

	declared := catalog.New()
	evaluates := &evaluator.Evaluator{Catalog: declared, Namespaces: everywhere{}, SystemNamespace: "system"}
	objects := objectcache.New(nil, nil)
	transitions := engine.New(engine.Dependencies{
		Store: store, Catalog: declared, Objects: objects, SystemNamespace: "system", Log: logr.Discard(),
	})
	t.Cleanup(transitions.Queue().ShutDown)
	s.Handler = New(Dependencies{
		Catalog: declared, Evaluator: evaluates, Store: store, Objects: objects, Engine: transitions, Ready: ready,
		Replicas: alone{}, Policies: open{},
	})

	registration := &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "maps"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: "maps", Type: quotav1alpha1.RegistrationTypeEntity, BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1,
			ConsumerTypeRef:   quotav1alpha1.ConsumerTypeRef{APIGroup: "platform.example.com", Kind: "Organization"},
			ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
		},
	}
	apimeta.SetStatusCondition(&registration.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	s.Catalog.SetRegistration(registration)

	for _, name := range organizations {
		err := store.SetGrants(t.Context(), organization(name), func(context.Context, []ledger.Grant) ([]ledger.Grant, error) {
			return []ledger.Grant{{UID: "g", Name: "g", Allowances: []ledger.Allowance{{ResourceType: "maps", Amount: limit}}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.policy(name, "true")
	}
	return s
}

// policy charges ConfigMaps to the organization of the same name.
func (s *scene) policy(name, condition string) {
	s.Helper()
	s.policyFor(name, name, condition)
}

// policyFor charges ConfigMaps to an organization.
func (s *scene) policyFor(payer, name, condition string) {
	s.Helper()
	s.policyWith(payer, name, condition, func(*quotav1alpha1.ClaimCreationPolicySpec) {})
}

// counted has a policy count objects.
func counted(p *quotav1alpha1.ClaimCreationPolicySpec) {
	p.Target.ResourceClaimTemplate.Metadata.Annotations = nil
}

// count has the policy of acme count ConfigMaps, of which there are none yet. It returns their inventory.
func (s *scene) count() *inventory.Kind {
	s.Helper()
	seen := inventory.New()
	maps := seen.Add(inventory.NameOf(configMap), types.NamespacedName.String)
	maps.Replace(ledger.Basis{Objects: 1, Policies: 1}, slices.Values([]inventory.Object(nil)))
	s.Store.Inventory = inventoryByHand{&watcher.Watcher{Inventory: seen}}
	s.policyWith("acme", "acme", "true", counted)
	return maps
}

// policyWith is policyFor with a change to the policy. Its claims are of record, because they name the user.
func (s *scene) policyWith(payer, name, condition string, change func(*quotav1alpha1.ClaimCreationPolicySpec)) {
	s.Helper()
	s.policies++
	p := &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: s.policies},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: condition}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Annotations: map[string]string{"example.com/user": "{{.user.name}}"}},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: organization(payer), Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "maps", Amount: 1}},
				},
			}},
		},
	}
	change(&p.Spec)
	if errs := s.Catalog.SetPolicy(p); len(errs) > 0 {
		s.Fatal(errs.ToAggregate())
	}
}

// review reviews the create of a ConfigMap.
func (s *scene) review(uid types.UID) *admissionv1.AdmissionResponse {
	s.Helper()
	return s.reviewNamed("map-"+string(uid), uid)
}

// reviewNamed reviews the create of a ConfigMap with the name.
func (s *scene) reviewNamed(name string, uid types.UID) *admissionv1.AdmissionResponse {
	s.Helper()
	return s.reviewBy(authenticationv1.UserInfo{}, name, uid)
}

// reviewBy reviews the create of a ConfigMap by a user.
func (s *scene) reviewBy(user authenticationv1.UserInfo, name string, uid types.UID) *admissionv1.AdmissionResponse {
	s.Helper()
	object, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: uid},
	})
	if err != nil {
		s.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Request: &admissionv1.AdmissionRequest{
		UID: "round-trip", Operation: admissionv1.Create, Namespace: "n", Name: name, UserInfo: user,
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Object:   runtime.RawExtension{Raw: object},
	}})
	if err != nil {
		s.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/enforce?timeout="+cmp.Or(s.patience, 1500*time.Millisecond).String(), bytes.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.UID != "round-trip" {
		s.Fatalf("answered %d %s: %v", recorder.Code, recorder.Body, err)
	}
	return review.Response
}

func (s *scene) reservations() (counts []int) {
	for _, name := range organizations {
		counts = append(counts, len(s.memory.Snapshot(organization(name)).Reservations))
	}
	return counts
}

func (s *scene) wantReservations(acme, globex int) {
	s.Helper()
	if got := s.reservations(); got[0] != acme || got[1] != globex {
		s.Errorf("acme and globex have %v reservations, want %d and %d", got, acme, globex)
	}
}

func (s *scene) wantAllowed(answer *admissionv1.AdmissionResponse) {
	s.Helper()
	if !answer.Allowed {
		s.Fatalf("denied: %s", answer.Result.Message)
	}
}

func (s *scene) wantDenied(answer *admissionv1.AdmissionResponse, code int32, sentences ...string) {
	s.Helper()
	if answer.Allowed || answer.Result.Code != code {
		s.Fatalf("got %+v, want a refusal with code %d", answer, code)
	}
	for _, want := range sentences {
		if !strings.Contains(answer.Result.Message, want) {
			s.Errorf("the message is %q, want it to say %q", answer.Result.Message, want)
		}
	}
}

func TestAllConsumersOrNone(t *testing.T) {
	s := newScene(t, 1)
	if answer := s.review("1"); !answer.Allowed {
		t.Fatalf("refused: %s", answer.Result.Message)
	}
	s.wantReservations(1, 1)
	s.wantDenied(s.review("2"), http.StatusForbidden,
		"ConfigMap quota of Organization acme, requested: 1 map, used: 1, limited: 1. Delete",
		"ConfigMap quota of Organization globex, requested: 1 map, used: 1, limited: 1.")
	s.wantReservations(1, 1)
}

// One write of the ledger charges a consumer for an object, for any number of policies.
func TestManyPoliciesCommitOnce(t *testing.T) {
	const policies = 10
	s := newScene(t, policies)
	for n := 1; n < policies; n++ { // beside the existing one
		s.policyFor("acme", fmt.Sprint("acme-", n), "true")
	}
	commits := func() int { return len(s.memory.Revisions(organization("acme"))) }
	before := commits()
	if answer := s.review("1"); !answer.Allowed {
		t.Fatalf("refused: %s", answer.Result.Message)
	}
	s.wantReservations(policies, 1)
	if got := commits() - before; got != 1 {
		t.Errorf("the ledger was written %d times for one object, want once", got)
	}
	before = commits()
	s.wantDenied(s.review("2"), http.StatusForbidden, "requested: 10 maps, used: 10, limited: 10")
	s.wantReservations(policies, 1)
	if got := commits() - before; got != 0 {
		t.Errorf("the ledger was written %d times for an object that was refused, want never", got)
	}
}

// The message of an outage never speaks of a lack of quota.
func TestOutage(t *testing.T) {
	s := newScene(t, 1)
	s.fault = func(storagetest.Call) storagetest.Fault { return storagetest.Lost }
	answer := s.review("1")
	s.wantDenied(answer, http.StatusServiceUnavailable, "quota could not be decided", "try again")
	if strings.Contains(answer.Result.Message, "exceeded") || answer.Result.Details.RetryAfterSeconds == 0 {
		t.Errorf("got %+v", answer.Result)
	}
	s.fault = func(storagetest.Call) storagetest.Fault { return storagetest.None }
	if answer := s.review("1"); !answer.Allowed {
		t.Errorf("after the outage: %s", answer.Result.Message)
	}
}

// A repeated review leaves the first one's reservations if it fails halfway.
func TestSecondReviewRetainsReservationsOfTheFirst(t *testing.T) {
	s := newScene(t, 1)
	if answer := s.review("1"); !answer.Allowed {
		t.Fatalf("refused: %s", answer.Result.Message)
	}
	written := 0
	s.fault = func(call storagetest.Call) storagetest.Fault {
		if call == storagetest.Write {
			if written++; written > 1 {
				return storagetest.Lost
			}
		}
		return storagetest.None
	}
	s.wantDenied(s.review("1"), http.StatusServiceUnavailable)
	s.wantReservations(1, 1)
}

// The first consumer gets its charge back when the second falls short.
func TestRollback(t *testing.T) {
	s := newScene(t, 1)
	_, err := storagetest.Reserve(t.Context(), s.Store, organization("globex"), ledger.Reservation{
		Key: "other", Charges: []ledger.Charge{{ResourceType: "maps", Amount: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := s.review("1")
	s.wantDenied(answer, http.StatusForbidden, "Organization globex")
	if strings.Contains(answer.Result.Message, "acme") {
		t.Errorf("acme lacks nothing, and is named: %s", answer.Result.Message)
	}
	s.wantReservations(0, 1)
}

func TestConditionThatFails(t *testing.T) {
	s := newScene(t, 1)
	s.policy("acme", "trigger.data.size == 'large'")
	s.wantDenied(s.review("1"), http.StatusForbidden, "ClaimCreationPolicy acme cannot be applied to this object", "data")
	s.wantReservations(0, 0)
}

func TestNotReady(t *testing.T) {
	s := newScene(t, 1)
	s.Ready = make(chan struct{})
	s.wantDenied(s.review("1"), http.StatusServiceUnavailable, "the policies are still being loaded")
}

func TestNotAReview(t *testing.T) {
	s := newScene(t, 1)
	for _, body := range []string{"", "{", "[]", `{"request": 1}`, `{}`} {
		recorder := httptest.NewRecorder()
		s.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/enforce", strings.NewReader(body)))
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("%q is answered with %d, want 400", body, recorder.Code)
		}
	}
}

// nowhere fails to look up any namespace.
type nowhere struct{ everywhere }

func (nowhere) Object(context.Context, string) (map[string]any, error) {
	return nil, errors.New("the API server does not answer")
}

// The handler looks up the namespace only for policies that use it.
func TestNamespaceIsLookedUpWhereItIsUsed(t *testing.T) {
	s := newScene(t, 1)
	s.Evaluator.Namespaces = nowhere{}
	if answer := s.review("1"); !answer.Allowed {
		t.Errorf("no policy speaks of the namespace: %s", answer.Result.Message)
	}
	s.policy("acme", "namespaceObject.metadata.name == 'elsewhere'")
	s.wantDenied(s.review("2"), http.StatusServiceUnavailable, "the API server does not answer")
	s.Evaluator.Namespaces = everywhere{}
	s.policy("globex", "false")
	if answer := s.review("3"); !answer.Allowed {
		t.Errorf("the policies leave the object out: %s", answer.Result.Message)
	}
	s.wantReservations(1, 1)
}
