// Package evaluator finds out what a policy asks of an object: the claim that it makes for it, checked
// against the registrations, and what that charges. Admission asks before an object is stored;
// the controllers ask again about objects that are there.
package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/policy"
)

// Namespaces looks namespaces up.
type Namespaces interface {
	// Active tells whether a namespace exists and is not being deleted.
	Active(ctx context.Context, name string) (bool, error)
	// Object returns the metadata of a namespace as policies see it.
	Object(ctx context.Context, name string) (map[string]any, error)
}

// Evaluator plans claims. It is safe for concurrent use.
type Evaluator struct {
	Catalog    *catalog.Catalog
	Namespaces Namespaces
	// SystemNamespace is where claims for cluster-scoped objects go unless their template says otherwise.
	SystemNamespace string
}

// Object identifies an object that claims are planned for.
type Object struct {
	Kind schema.GroupVersionKind
	Name types.NamespacedName
	UID  types.UID
}

// ObjectOf names an object as a kind.
func ObjectOf(kind schema.GroupVersionKind, o metav1.Object) Object {
	return Object{Kind: kind, Name: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, UID: o.GetUID()}
}

// Reference is the object as events refer to it.
func (o Object) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Namespace: o.Name.Namespace, Name: o.Name.Name, UID: o.UID,
	}
}

// String names the object as people do: by kind and name, with its namespace where it has one.
func (o Object) String() string {
	return o.Kind.Kind + " " + cache.NamespacedNameAsObjectName(o.Name).String()
}

// Claim is what a policy asks of an object.
type Claim struct {
	// Policy is the name of the policy.
	Policy string
	// Key is that of the reservation for the claim.
	Key string
	// Consumer is charged, with Charges.
	Consumer quotav1alpha1.ConsumerRef
	Charges  []ledger.Charge
	// Intent is what the claim is made from.
	Intent claims.Intent
}

// TransientError says that something could not be found out now. It is the fault neither of the
// policy nor of the object.
type TransientError struct{ Err error }

// Error implements error.
func (e *TransientError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *TransientError) Unwrap() error { return e.Err }

// notAllowedError says that the registrations do not allow the claim that a policy makes.
type notAllowedError struct{ error }

// IsNotAllowed tells whether an error of [Evaluator.Evaluate] is that the registrations do not allow the claim,
// so that it may be another once these have changed.
func IsNotAllowed(err error) bool {
	var notAllowed *notAllowedError
	return errors.As(err, &notAllowed)
}

// IsTransient tells whether an error is the fault neither of a policy nor of an object: also one
// that only says that there was no time left.
func IsTransient(err error) bool {
	var transient *TransientError
	return errors.As(err, &transient) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Input is what policies see of an object that was not, or not just now, the subject of a request.
func (e *Evaluator) Input(content map[string]any) policy.Input {
	return policy.Input{Object: content, WithoutRequest: true}
}

// Complete adds to an input what policies may look at besides the request: the namespace, if one
// of them does, and the base units.
func (e *Evaluator) Complete(ctx context.Context, in *policy.Input, namespace string, policies []*catalog.Policy) error {
	in.Units = e.Catalog
	if namespace == "" {
		return nil
	}
	for _, each := range policies {
		if !each.UsesNamespace() {
			continue
		}
		var err error
		if in.NamespaceObject, err = e.Namespaces.Object(ctx, namespace); err != nil {
			return &TransientError{err}
		}
		return nil
	}
	return nil
}

// Evaluate applies one policy. It returns nil if the policy asks nothing: its conditions leave the
// object out, or all amounts come to 0. A [TransientError] says that this cannot be told now; any
// other error, that the policy cannot be applied to the object.
func (e *Evaluator) Evaluate(ctx context.Context, each *catalog.Policy, object Object, in policy.Input) (*Claim, error) {
	if matches, err := each.Matches(ctx, in); err != nil || !matches {
		return nil, err
	}
	claim, err := each.Render(ctx, in)
	if err != nil || claim == nil {
		return nil, err
	}
	if err := e.Catalog.CheckPolicyClaim(&claim.Spec); err != nil {
		return nil, &notAllowedError{err}
	}
	name := types.NamespacedName{
		Namespace: cmp.Or(claim.Namespace, object.Name.Namespace, e.SystemNamespace),
		Name:      cmp.Or(claim.Name, claims.GeneratedName(claim.GenerateName, each.Name, object.UID)),
	}
	if err := e.checkNamespace(ctx, name.Namespace, object); err != nil {
		return nil, err
	}
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	return &Claim{
		Policy:   each.Name,
		Key:      ledgerstore.ObjectKey(claims.LabelValue(each.Name), string(object.UID)),
		Consumer: claim.Spec.ConsumerRef,
		Charges:  charges,
		Intent: claims.Intent{
			Claim: name, Kind: object.Kind, Object: object.Name, Labels: claim.Labels, Annotations: claim.Annotations,
		},
	}, nil
}

// checkNamespace makes sure that the claim can be created in its namespace. Its name may be taken;
// then it gets another.
//
// The claim of a Namespace may not be in that Namespace: a claim goes after its object, and a Namespace
// after what is in it, so neither would ever go.
func (e *Evaluator) checkNamespace(ctx context.Context, namespace string, object Object) error {
	if namespace == object.Name.Namespace {
		return nil
	}
	if namespace == namespaces.Of(object.Kind.GroupKind(), object.Name) {
		return fmt.Errorf("its claim belongs in namespace %s, which is the object itself and could then never be deleted", namespace)
	}
	active, err := e.Namespaces.Active(ctx, namespace)
	if err != nil {
		return &TransientError{fmt.Errorf("look up namespace %s: %w", namespace, err)}
	}
	if !active {
		return fmt.Errorf("its claim belongs in namespace %s, which does not exist or is being deleted", namespace)
	}
	return nil
}

// Same tells whether two claims charge the same consumer the same. Either may be nil, for nothing.
func Same(a, b *Claim) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Consumer == b.Consumer && SameCharges(a.Charges, b.Charges)
}

// SameCharges tells whether charges are the same, in any order.
func SameCharges(a, b []ledger.Charge) bool {
	if len(a) != len(b) {
		return false
	}
	amounts := make(map[ledger.Charge]struct{}, len(a))
	for _, charge := range a {
		amounts[charge] = struct{}{}
	}
	for _, charge := range b {
		if _, ok := amounts[charge]; !ok {
			return false
		}
	}
	return true
}

// Covers tells whether a claim charges at least what another does, and the same consumer. Either
// may be nil, for nothing.
func (c *Claim) Covers(other *Claim) bool {
	if other == nil {
		return true
	}
	if c == nil || c.Consumer != other.Consumer {
		return false
	}
	type row struct {
		resourceType string
		dimensions   ledger.Dimensions
	}
	amounts := make(map[row]ledger.Amount, len(c.Charges))
	for _, charge := range c.Charges {
		amounts[row{charge.ResourceType, charge.Dimensions}] = charge.Amount
	}
	for _, charge := range other.Charges {
		if amounts[row{charge.ResourceType, charge.Dimensions}] < charge.Amount {
			return false
		}
	}
	return true
}
