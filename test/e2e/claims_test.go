package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
	"github.com/bursar/bursar/test/platform"
)

// claimingService has objects, ConfigMaps in a namespace of its own, and an Organization that pays for them.
type claimingService struct {
	*testing.T
	name   string
	grant  *quotav1alpha1.ResourceGrant
	claims *claims.Client
}

func newClaimingService(t *testing.T, amount int64) *claimingService {
	t.Helper()
	s := &claimingService{T: t, name: nameOf(t), claims: &claims.Client{Client: admin}}
	s.grant = &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "grant"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer(s.name), Allowances: []quotav1alpha1.Allowance{{ResourceType: unit, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
	}}
	must(s, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}))
	must(s, admin.Create(t.Context(), s.grant))
	eventually(s, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(s.grant), s.grant); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(s.grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			return fmt.Errorf("the grant is not active: %+v", s.grant.Status.Conditions)
		}
		return nil
	})
	return s
}

// object makes an object of the service.
func (s *claimingService) object(name string) *corev1.ConfigMap {
	s.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	must(s, admin.Create(s.Context(), object))
	return object
}

func (s *claimingService) request(object *corev1.ConfigMap, amount int64) claims.Request {
	return claims.For(object, platform.Consumer(s.name), claims.Amount(unit, amount))
}

// waitState waits until the decision on a request has a state.
func (s *claimingService) waitState(request claims.Request, want claims.State) (decision claims.Decision) {
	s.Helper()
	eventually(s, func() (err error) {
		if decision, err = s.claims.Ensure(s.Context(), request); err == nil && decision.State != want {
			err = fmt.Errorf("it is %d, want %d: %s", decision.State, want, decision.Message)
		}
		return err
	})
	return decision
}

func (s *claimingService) claimsOf() []quotav1alpha1.ResourceClaim {
	s.Helper()
	var list quotav1alpha1.ResourceClaimList
	must(s, admin.List(s.Context(), &list, client.InNamespace(s.name)))
	return list.Items
}

// A claim beyond the limit waits. It is granted by itself once another object goes, or the limit grows.
func TestWaitsAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	first, second, third := s.object("first"), s.object("second"), s.object("third")
	s.waitState(s.request(first, 8), claims.Granted)
	exceeded := s.waitState(s.request(second, 5), claims.Exceeded)
	if !strings.Contains(exceeded.Message, "5") || !strings.Contains(exceeded.Message, "10") {
		t.Errorf("%q does not say how much there is", exceeded.Message)
	}
	s.waitState(s.request(third, 4), claims.Exceeded)
	must(s, admin.Delete(t.Context(), first))
	s.waitState(s.request(second, 5), claims.Granted)
	s.waitState(s.request(third, 4), claims.Granted)
	s.waitState(s.request(s.object("fourth"), 2), claims.Exceeded)
	change(t, s.grant, func(g *quotav1alpha1.ResourceGrant) { g.Spec.Allowances[0].Buckets[0].Amount = 11 })
	eventually(s, func() error {
		for _, claim := range s.claimsOf() {
			if !claims.DecisionOf(&claim).IsGranted() {
				return fmt.Errorf("claim %s waits: %+v", claim.Name, claim.Status.Conditions)
			}
		}
		return nil
	})
}

// Many concurrent requests for an object result in one claim.
func TestOneClaimForEach(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	object := s.object("one")
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			_, err := s.claims.Ensure(t.Context(), s.request(object, 6))
			return err
		})
	}
	must(s, group.Wait())
	if n := len(s.claimsOf()); n != 1 {
		t.Errorf("there are %d claims", n)
	}
	decision := s.waitState(s.request(object, 6), claims.Granted)
	owner := metav1.GetControllerOf(decision.Claim)
	if owner == nil || owner.UID != object.UID || owner.Kind != "ConfigMap" || owner.APIVersion != "v1" {
		t.Errorf("the claim is of %+v", owner)
	}
}

// Another object of the same name has another claim, and waits until the former claim returns its charge.
func TestObjectIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	before := s.object("same")
	former := s.waitState(s.request(before, 10), claims.Granted)
	must(s, admin.Delete(t.Context(), before))
	now := s.waitState(s.request(s.object("same"), 10), claims.Granted)
	if now.Claim.Name == former.Claim.Name {
		t.Error("both objects have one claim")
	}
}

// An object in deletion gets no claim and no resources.
func TestObjectIsBeingDeleted(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	for _, name := range []string{"unclaimed", "claimed"} {
		object := s.object(name)
		object.Finalizers = []string{"platform.example.com/finalizer"}
		must(s, admin.Update(t.Context(), object))
		if name == "claimed" {
			s.waitState(s.request(object, 1), claims.Granted)
		}
		must(s, admin.Delete(t.Context(), object))
		must(s, admin.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		decision, err := s.claims.Ensure(t.Context(), s.request(object, 1))
		if err != nil || decision.IsGranted() {
			t.Errorf("an object %s that is going: %+v, %v", name, decision, err)
		}
		must(s, s.claims.Release(t.Context(), s.request(object, 1)))
		must(s, s.claims.Release(t.Context(), s.request(object, 1)))
		eventually(s, func() error {
			if n := len(s.claimsOf()); n > 0 {
				return fmt.Errorf("%d claims are there", n)
			}
			return nil
		})
		object.Finalizers = nil
		must(s, admin.Update(t.Context(), object))
	}
}

// An object with a finalizer keeps its charge to its end, even if the garbage collector deletes its claim first.
func TestObjectIsDeletedInTheForeground(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 1)
	first := s.object("first")
	first.Finalizers = []string{"platform.example.com/finalizer"}
	must(s, admin.Update(t.Context(), first))
	s.waitState(s.request(first, 1), claims.Granted)
	must(s, admin.Delete(t.Context(), first, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	// The collector may come too late for the claim, so the test does its work.
	must(s, admin.DeleteAllOf(t.Context(), &quotav1alpha1.ResourceClaim{}, client.InNamespace(s.name)))
	stale := first.DeepCopy() // as a cache may still have it
	stale.DeletionTimestamp = nil
	if decision, err := s.claims.Ensure(t.Context(), s.request(stale, 1)); err != nil || decision.IsGranted() {
		t.Errorf("an object that is going: %+v, %v", decision, err)
	}
	second := s.object("second")
	s.waitState(s.request(second, 1), claims.Exceeded)
	eventually(s, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
			return err
		}
		first.Finalizers = slices.DeleteFunc(first.Finalizers, func(f string) bool { return f == "platform.example.com/finalizer" })
		return admin.Update(t.Context(), first)
	})
	waitNotFound(s, admin, removal, first)
	s.waitState(s.request(second, 1), claims.Granted)
}

func TestRequestsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	object := s.object("one")
	for name, tt := range map[string]struct {
		request claims.Request
		want    string
	}{
		"no owner":        {claims.Request{}, "has no owner"},
		"not read":        {s.request(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "new"}}, 1), "it has no UID; read it from the API server first"},
		"no namespace":    {claims.For(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wide", UID: "u"}}, platform.Consumer("a"), claims.Amount(unit, 1)), "set Request.Namespace"},
		"other namespace": {claims.Request{Owner: object, Consumer: platform.Consumer(s.name), Namespace: "default"}, "must be in its namespace"},
		"nothing":         {s.request(object, 0), "spec.requests"},
	} {
		t.Run(name, func(t *testing.T) {
			decision, err := s.claims.Ensure(t.Context(), tt.request)
			if err == nil || !strings.Contains(err.Error(), tt.want) || decision.State != claims.Invalid {
				t.Errorf("got %v and %+v, want an error that says %q", err, decision, tt.want)
			}
		})
	}
	unknown := claims.For(object, platform.Consumer(s.name), claims.Amount("platform.example.com/unknown", 1))
	if said := s.waitState(unknown, claims.Invalid); !strings.Contains(said.Message, "platform.example.com/unknown") {
		t.Errorf("%q does not say what is wrong", said.Message)
	}
}

// An object does not take the claim of another object, or of another consumer, for its own.
func TestAnotherClaimIsThere(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	object := s.object("one")
	s.waitState(s.request(object, 2), claims.Granted)
	moved := s.request(object, 2)
	moved.Consumer = platform.Consumer("another")
	if decision, err := s.claims.Ensure(t.Context(), moved); !errors.Is(err, claims.ErrDiffers) || decision.IsGranted() {
		t.Errorf("what one consumer has is granted to another: %+v, %v", decision, err)
	}
	must(s, s.claims.Release(t.Context(), moved))
	s.waitState(moved, claims.Exceeded)

	other := s.object("other")
	foreign := s.waitState(s.request(other, 1), claims.Granted).Claim.DeepCopy()
	foreign.OwnerReferences[0].UID, foreign.OwnerReferences[0].Name = object.UID, object.Name
	must(s, admin.Update(t.Context(), foreign))
	decision, err := s.claims.Ensure(t.Context(), s.request(other, 1))
	if err == nil || decision.IsGranted() || !strings.Contains(err.Error(), "does not belong to ConfigMap other") {
		t.Errorf("the claim of another object is taken for its own: %+v, %v", decision, err)
	}
}

// An object with a new amount keeps its charge until the new amount is granted. An object without a charge waits for
// the new amount only.
func TestResizeOfClaims(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	first, second := s.object("first"), s.object("second")
	s.waitState(s.request(first, 4), claims.Granted)
	s.waitState(s.request(second, 7), claims.Exceeded)
	s.waitState(s.request(second, 6), claims.Granted)
	waitResized := func(object *corev1.ConfigMap, amount, held int64, reason string) {
		t.Helper()
		eventually(s, func() error {
			decision, err := s.claims.Ensure(t.Context(), s.request(object, amount))
			if err != nil {
				return err
			}
			var conditions []metav1.Condition
			decision.Set(&conditions, 1, "Ready")
			said := ""
			if c := apimeta.FindStatusCondition(conditions, claims.ConditionQuotaResizePending); c != nil {
				said = c.Reason
			}
			has := decision.Held()
			if len(has) != 1 || has[0].Amount != held || said != reason || !apimeta.IsStatusConditionTrue(conditions, claims.ConditionQuotaGranted) {
				return fmt.Errorf("it has %+v, and says %+v, want %d and %q", has, conditions, held, reason)
			}
			return nil
		})
	}
	waitResized(first, 5, 4, quotav1alpha1.ReasonQuotaExceeded)
	waitResized(first, 4, 4, "")
	waitResized(first, 3, 3, "")
	waitResized(first, 5, 3, quotav1alpha1.ReasonQuotaExceeded)
	waitResized(second, 5, 5, "")
	waitResized(first, 5, 5, "")
	waitResized(first, 7, 5, quotav1alpha1.ReasonQuotaExceeded)
	must(s, admin.Delete(t.Context(), second))
	waitResized(first, 7, 7, "")
	unknown := claims.For(first, platform.Consumer(s.name), claims.Amount("platform.example.com/unknown", 1))
	eventually(s, func() error {
		decision, err := s.claims.Ensure(t.Context(), unknown)
		if err == nil && (decision.Resize == nil || decision.Resize.State != claims.Invalid || !decision.IsGranted()) {
			err = fmt.Errorf("it is %+v", decision)
		}
		return err
	})
	if _, err := s.claims.Ensure(t.Context(), s.request(first, 0)); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want that nothing is no amount", err)
	}
}

// While Bursar does not answer, nothing gets quota, and the condition gives the reason.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	absent := interceptor.NewClient(admin, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewInternalError(fmt.Errorf("failed calling webhook: no endpoints available"))
	}})
	decision, err := (&claims.Client{Client: absent}).Ensure(t.Context(), s.request(s.object("one"), 1))
	condition := decision.Condition(1)
	if err == nil || decision.IsGranted() || condition.Status != metav1.ConditionUnknown || !strings.Contains(condition.Message, "no endpoints available") {
		t.Errorf("got %v and %+v", err, condition)
	}
}

// The order of amounts makes no difference.
func TestAmountsInAnyOrder(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	object := s.object("one")
	amounts := []quotav1alpha1.ResourceRequest{claims.Amount(unit, 1), claims.Amount("platform.example.com/another", 2)}
	for range 2 {
		slices.Reverse(amounts)
		if _, err := s.claims.Ensure(t.Context(), claims.For(object, platform.Consumer(s.name), amounts...)); err != nil {
			t.Error(err)
		}
	}
}

// A cache without the claim does no harm.
func TestCacheIsBehind(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 10)
	request := s.request(s.object("one"), 1)
	s.waitState(request, claims.Granted)
	behind := interceptor.NewClient(admin, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
		return apierrors.NewNotFound(quotav1alpha1.Resource("resourceclaims"), key.Name)
	}})
	decision, err := (&claims.Client{Client: behind, Live: admin}).Ensure(t.Context(), request)
	if err != nil || !decision.IsGranted() {
		t.Errorf("got %v and %+v", err, decision)
	}
	if n := len(s.claimsOf()); n != 1 {
		t.Errorf("there are %d claims", n)
	}
}

// A service can read a consumer's usage before it creates anything.
func TestUsageOfAConsumer(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 3)
	s.waitState(s.request(s.object("one"), 2), claims.Granted)
	eventually(s, func() error {
		usage, err := s.claims.Usage(t.Context(), platform.Consumer(s.name))
		if err != nil || len(usage) != 1 {
			return fmt.Errorf("got %+v, %v", usage, err)
		}
		if got := usage[0]; got.ResourceType != unit || got.Used != 2 || got.Limit != 3 || got.Available != 1 || got.String() != "2/3 units used" {
			return fmt.Errorf("got %+v: %s", got, got)
		}
		return nil
	})
	other := platform.Consumer(s.name)
	other.APIGroup = "other.example.com"
	if usage, err := s.claims.Usage(t.Context(), other); err != nil || len(usage) != 0 {
		t.Errorf("a consumer of another group: got %+v, %v", usage, err)
	}
	if got := (claims.Usage{Used: 1, Limit: 2}).String(); got != "1/2 used" {
		t.Errorf("without a registration: got %q", got)
	}
}

// Reading a decision makes no claim.
func TestReadMakesNoClaim(t *testing.T) {
	t.Parallel()
	s := newClaimingService(t, 3)
	request := s.request(s.object("one"), 2)
	read := func(want claims.State) claims.Decision {
		t.Helper()
		decision, err := s.claims.Read(t.Context(), request)
		if err != nil || decision.State != want {
			t.Fatalf("got %+v, %v, want state %d", decision, err, want)
		}
		return decision
	}
	if decision := read(claims.Pending); decision.Claim != nil || len(s.claimsOf()) != 0 {
		t.Errorf("there is a claim: %+v", decision.Claim)
	}
	s.waitState(request, claims.Granted)
	request.Consumer = platform.Consumer("other") // the answer names the charged consumer
	if held := read(claims.Granted).Held(); len(held) != 1 || held[0].Amount != 2 {
		t.Errorf("it holds %+v", held)
	}
	if _, err := s.claims.Read(t.Context(), claims.Request{}); err == nil {
		t.Error("a request without an owner can be read")
	}
}
