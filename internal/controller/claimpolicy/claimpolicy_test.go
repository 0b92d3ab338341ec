package claimpolicy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// kinds serves the listed kinds, and returns an error if it is nil.
type kinds []schema.GroupVersionKind

func (k kinds) VersionedResourceFor(_ context.Context, kind schema.GroupVersionKind) (schema.GroupVersionResource, bool, error) {
	if k == nil {
		return schema.GroupVersionResource{}, false, errors.New("the server is restarting")
	}
	for _, served := range k {
		if served == kind {
			return kind.GroupVersion().WithResource("carts"), true, nil
		}
	}
	return schema.GroupVersionResource{}, false, nil
}

var cart = schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Cart"}

// registered is a catalog. Carts may claim carts for Organizations in it.
func registered() *catalog.Catalog {
	c := catalog.New()
	c.SetRegistration(registration())
	return c
}

func registration() *quotav1alpha1.ResourceRegistration {
	return &quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: "carts"},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType:      "shop/carts",
			ConsumerTypeRef:   quotav1alpha1.ConsumerTypeRef{APIGroup: "platform.example.com", Kind: "Organization"},
			ClaimingResources: []quotav1alpha1.ClaimingResource{{APIGroup: cart.Group, Kind: cart.Kind}},
			Dimensions:        []string{"location"},
		},
		Status: quotav1alpha1.ResourceRegistrationStatus{Conditions: []metav1.Condition{{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue}}},
	}
}

// policyFor is a policy to charge one cart per Cart.
func policyFor(change func(*quotav1alpha1.ClaimCreationPolicy)) *quotav1alpha1.ClaimCreationPolicy {
	p := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "carts", Generation: 2}}
	p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: cart.GroupVersion().String(), Kind: cart.Kind}
	spec := &p.Spec.Target.ResourceClaimTemplate.Spec
	spec.ConsumerRef = quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "{{.trigger.metadata.namespace}}"}
	spec.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "shop/carts", Amount: 1}}
	p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "cart-{{.trigger.metadata.name}}"
	change(p)
	return p
}

// permitted is a permission without the given verbs.
type permitted string

func (p permitted) Follow(context.Context, schema.GroupVersionResource) (string, error) {
	return string(p), nil
}

func TestReadyCondition(t *testing.T) {
	no := false
	type policy = quotav1alpha1.ClaimCreationPolicy
	tests := map[string]struct {
		reason       string
		change       func(*policy)
		kinds        kinds
		notEffective bool
		notPermitted string
		notLoaded    bool
		isClosing    bool   // the registration is being deleted
		want         string // the condition's reason, or empty while it is undecided
		wantParts    []string
		wantErr      bool
	}{
		"ready":          {reason: "all is in place", kinds: kinds{cart}, want: quotav1alpha1.ReasonPolicyReady, wantParts: []string{"Cart"}},
		"not permitted":  {reason: "what may not be followed cannot be released", kinds: kinds{cart}, notPermitted: "Bursar may not list carts", want: quotav1alpha1.ReasonValidationFailed},
		"not asked":      {reason: "Ready promises that creates are checked", kinds: kinds{cart}, notEffective: true},
		"older in use":   {reason: "and by this generation of the policy", kinds: kinds{cart}, notLoaded: true},
		"disabled":       {reason: "who disables a policy is told that nothing is enforced", kinds: kinds{cart}, change: func(p *policy) { p.Spec.Enabled = &no }, want: quotav1alpha1.ReasonPolicyDisabled, notLoaded: true},
		"still enforced": {reason: "which is only said once it is so", kinds: kinds{cart}, change: func(p *policy) { p.Spec.Enabled = &no }},
		"cannot tell":    {reason: "doubt is no error of the policy", wantErr: true},
		"not served": {reason: "nobody can create such objects", kinds: kinds{},
			want: quotav1alpha1.ReasonValidationFailed, wantParts: []string{"Cart.shop.example.com in version shop.example.com/v1 is not served"}},
		"other version served": {reason: "conditions are written for one version", kinds: kinds{{Group: cart.Group, Version: "v2", Kind: cart.Kind}},
			want: quotav1alpha1.ReasonValidationFailed, wantParts: []string{"is not served"}},
		"everything wrong": {reason: "all reasons are told at once", kinds: kinds{}, want: quotav1alpha1.ReasonValidationFailed,
			change: func(p *policy) {
				p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: "trigger.metadata.name =="}}
				p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = "shop/castles"
			},
			wantParts: []string{"spec.trigger.conditions[0].expression", "is not served", `"shop/castles" has no active ResourceRegistration`}},
		"closing": {reason: "what exists keeps its quota, so the policy goes on", kinds: kinds{cart}, isClosing: true,
			want: quotav1alpha1.ReasonValidationFailed, wantParts: []string{"ResourceRegistration carts is being deleted; the policy decides requests all the same"}},
		"not claiming": {reason: "each create is denied with the reason, and Applicable says so", kinds: kinds{{Group: cart.Group, Version: "v1", Kind: "Basket"}},
			change: func(p *policy) { p.Spec.Trigger.Resource.Kind = "Basket" },
			want:   quotav1alpha1.ReasonPolicyReady, wantParts: []string{"Basket.shop.example.com are checked"}},
		"other consumer": {reason: "a literal consumer kind can be compared", kinds: kinds{cart},
			change: func(p *policy) { p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Kind = "Team" },
			want:   quotav1alpha1.ReasonValidationFailed, wantParts: []string{"Organization.platform.example.com", "Team.platform.example.com"}},
		"unknown dimension": {reason: "a registration says which dimensions there are", kinds: kinds{cart},
			change: func(p *policy) {
				p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions = map[string]string{"location": "DFW", "zone": "{{.trigger.spec.zone}}"}
			},
			want:      quotav1alpha1.ReasonValidationFailed,
			wantParts: []string{`"shop/carts" has no dimension "zone": add it to spec.dimensions of ResourceRegistration carts`}},
		"known dimension": {reason: "its values may be templates", kinds: kinds{cart},
			change: func(p *policy) {
				p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].Dimensions = map[string]string{"location": "{{.trigger.spec.location}}"}
			}, want: quotav1alpha1.ReasonPolicyReady},
		"templated consumer": {reason: "what a template makes is known at each create only", kinds: kinds{cart},
			change: func(p *policy) {
				p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Kind = "{{.trigger.spec.ownerKind}}"
			}, want: quotav1alpha1.ReasonPolicyReady},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*policy) {}
			}
			object := policyFor(tt.change)
			var told bool
			r := &Reconciler{Catalog: registered(), Kinds: tt.kinds, Permission: permitted(tt.notPermitted), Listener: listener{&told},
				Webhooks: effective(!tt.notEffective)}
			if !tt.notLoaded {
				loaded := object.DeepCopy()
				loaded.Spec.Enabled = nil
				r.Catalog.SetPolicy(loaded)
			}
			if tt.isClosing {
				closing := registration()
				closing.DeletionTimestamp, closing.Finalizers = &metav1.Time{Time: time.Now()}, []string{quotav1alpha1.FinalizerInUse}
				r.Catalog.SetRegistration(closing)
			}
			condition, err := r.readyCondition(t.Context(), object)
			if (err != nil) != tt.wantErr {
				t.Fatalf("%s: got error %v, want one: %t", tt.reason, err, tt.wantErr)
			}
			if wantTold := tt.notPermitted != ""; told != wantTold || wantTold && r.Catalog.Policy(object.Name) != nil {
				t.Errorf("%s: what may not be followed is not used, and that is told: %t, want %t", tt.reason, told, wantTold)
			}
			if condition == nil {
				condition = &metav1.Condition{}
			}
			if condition.Reason != tt.want {
				t.Fatalf("%s: got %q with message %q, want %q", tt.reason, condition.Reason, condition.Message, tt.want)
			}
			for _, part := range tt.wantParts {
				if !strings.Contains(condition.Message, part) {
					t.Errorf("%s: the message %q does not say %q", tt.reason, condition.Message, part)
				}
			}
		})
	}
}

// The status has the generation in effect, so that a process that starts later knows it.
func TestEffective(t *testing.T) {
	type policy = quotav1alpha1.ClaimCreationPolicy
	stored := func(generation int64) *quotav1alpha1.EffectivePolicy {
		return &quotav1alpha1.EffectivePolicy{Generation: generation, Spec: runtime.RawExtension{Raw: []byte(`{"former":true}`)}}
	}
	disabled := func(p *policy) { p.Spec.Disabled = true }
	for name, tt := range map[string]struct {
		reason         string
		change         func(*policy)
		stored         *quotav1alpha1.EffectivePolicy
		isReady        bool
		current        int64 // the generation in the catalog, or 0
		isSuspended    bool
		wantGeneration int64 // 0 for nothing
		wantSuspended  bool
	}{
		"ready":            {reason: "it decides requests from now on", isReady: true, current: 2, wantGeneration: 2},
		"ready again":      {reason: "the latest replaces the former", stored: stored(1), isReady: true, current: 2, wantGeneration: 2},
		"never ready":      {reason: "it has not decided a request", current: 2},
		"former goes on":   {reason: "the latest is not allowed", stored: stored(1), current: 1, wantGeneration: 1},
		"not compiled":     {reason: "a later binary has it in effect", stored: stored(2), wantGeneration: 2},
		"latest not ready": {reason: "it decides, and the former no longer does", stored: stored(1), current: 2, wantGeneration: 2},
		"disabled":         {reason: "its author ends it", change: disabled, stored: stored(1), current: 1},
		"suspended":        {reason: "a new leader must know that", stored: stored(2), current: 2, isSuspended: true, wantGeneration: 2, wantSuspended: true},
		"former suspended": {reason: "a new leader must know that", stored: stored(1), current: 1, isSuspended: true, wantGeneration: 1, wantSuspended: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*policy) {}
			}
			object := policyFor(tt.change)
			object.Generation, object.Status.Effective = 2, tt.stored
			r := &Reconciler{Catalog: registered()}
			if tt.current != 0 {
				r.Catalog.SetPolicy(policyFor(func(p *policy) { p.Generation = tt.current }))
				r.Catalog.SetSuspended(object.Name, tt.current, tt.isSuspended)
			}

			got, err := r.effective(object, tt.isReady)

			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				got = &quotav1alpha1.EffectivePolicy{}
			}
			if got.Generation != tt.wantGeneration || got.Suspended != tt.wantSuspended {
				t.Errorf("%s: generation %d, suspended %t; want %d, %t", tt.reason, got.Generation, got.Suspended, tt.wantGeneration, tt.wantSuspended)
			}
			wantStored := tt.stored != nil && got.Generation == tt.stored.Generation
			if isStored := string(got.Spec.Raw) == `{"former":true}`; isStored != wantStored {
				t.Errorf("%s: the spec is %s", tt.reason, got.Spec.Raw)
			}
		})
	}
}

// listener records its calls.
type listener struct{ called *bool }

func (l listener) PoliciesChanged() { *l.called = true }

// effective is whether the API server asks about everything.
type effective bool

func (a effective) IsEffective(schema.GroupVersionKind, int64) bool { return bool(a) }

func TestDenials(t *testing.T) {
	last := metav1.Date(2026, 11, 1, 18, 0, 0, 0, time.UTC)
	for want, counts := range map[string][2]int64{
		"; 1 of 1 request that it could not be applied to was denied, the last at 2026-11-01T18:00:00Z":   {1, 1},
		"; 1 of 3 requests that it could not be applied to was denied, the last at 2026-11-01T18:00:00Z":  {1, 3},
		"; 3 of 3 requests that it could not be applied to were denied, the last at 2026-11-01T18:00:00Z": {3, 3},
	} {
		status := &quotav1alpha1.EvaluationStatus{Denied: counts[0], Failed: counts[1], LastFailureTime: last}
		if got := denials(status); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
