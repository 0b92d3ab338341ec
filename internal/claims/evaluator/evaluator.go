// Package evaluator evaluates a policy for an object: it returns the demanded claim, checked against the
// registrations, with its charges. The webhook in package enforce evaluates objects before their creation. Package
// preview evaluates existing objects for a new or changed policy, and package engine for its reconciling.
package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// Namespaces looks up namespaces.
type Namespaces interface {
	// Active reports whether a namespace exists and is not being deleted.
	Active(ctx context.Context, name string) (bool, error)
	// Object returns the metadata of a namespace as policies see it.
	Object(ctx context.Context, name string) (map[string]any, error)
}

// Evaluator evaluates policies. It is safe for concurrent use.
type Evaluator struct {
	Catalog    *catalog.Catalog
	Namespaces Namespaces
	// SystemNamespace is the namespace of claims for cluster-scoped objects unless their template names another.
	SystemNamespace string
}

// Object identifies an object for the evaluation of policies.
type Object struct {
	Kind schema.GroupVersionKind
	Name types.NamespacedName
	UID  types.UID
}

// ObjectOf returns the identity of an object of a kind.
func ObjectOf(kind schema.GroupVersionKind, o metav1.Object) Object {
	return Object{Kind: kind, Name: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, UID: o.GetUID()}
}

// Reference returns the object as events refer to it.
func (o Object) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Namespace: o.Name.Namespace, Name: o.Name.Name, UID: o.UID,
	}
}

// String returns kind and name, with the namespace if there is one.
func (o Object) String() string {
	return o.Kind.Kind + " " + cache.NamespacedNameAsObjectName(o.Name).String()
}

// Claim is the claim that a policy demands for an object.
type Claim struct {
	// Policy is the name of the policy.
	Policy string
	// Key is the key of the claim's reservation.
	Key string
	// Consumer pays Charges.
	Consumer quotav1alpha1.ConsumerRef
	Charges  []ledger.Charge
	// Intent is the stored part of the claim.
	Intent claims.Intent
}

// TransientError means that the lookup of a fact failed. Neither the policy nor the object is invalid.
type TransientError struct{ Err error }

// Error implements error.
func (e *TransientError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TransientError) Unwrap() error { return e.Err }

// notAllowedError means that the registrations do not allow the claim of a policy.
type notAllowedError struct{ error }

// IsNotAllowed reports whether an error of [Evaluator.Evaluate] means that the registrations do not allow the claim. It
// may succeed after they have changed.
func IsNotAllowed(err error) bool {
	var notAllowed *notAllowedError
	return errors.As(err, &notAllowed)
}

// IsTransient reports whether neither a policy nor an object causes an error. This includes an expired or cancelled
// context.
func IsTransient(err error) bool {
	var transient *TransientError
	return errors.As(err, &transient) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Input returns the input of policies for an object without a request.
func (e *Evaluator) Input(content map[string]any) policy.Input {
	return policy.Input{Object: content, WithoutRequest: true}
}

// Complete adds the facts to an input that are neither in the request nor in the object: the namespace, if one of the
// policies uses it, and the base units.
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

// Evaluate evaluates one policy. It returns nil if the policy demands nothing: its conditions exclude the object, or
// all amounts are 0. A [TransientError] means that this is unknown now. Any other error means that the policy is not
// applicable to the object.
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
	if each.CountsObjects() {
		return withCharges(each, object, claim, claims.Intent{Kind: object.Kind, Object: object.Name})
	}
	name := e.nameOf(each, object, claim)
	if err := e.checkNamespace(ctx, name.Namespace, object); err != nil {
		return nil, err
	}
	return withCharges(each, object, claim, claims.Intent{
		Claim: name, Kind: object.Kind, Object: object.Name, Labels: claim.Labels, Annotations: claim.Annotations,
	})
}

// nameOf returns the namespace and name of the claim of a policy for an object.
func (e *Evaluator) nameOf(each *catalog.Policy, object Object, claim *quotav1alpha1.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{
		Namespace: cmp.Or(claim.Namespace, object.Name.Namespace, e.SystemNamespace),
		Name:      cmp.Or(claim.Name, claims.GeneratedName(claim.GenerateName, each.Name, object.UID)),
	}
}

// View returns the claim that shows what an existing object demands by a policy, or nil if it demands nothing. The view
// is in the system namespace if its own does not exist, or is being deleted. Errors are those of [Evaluator.Evaluate].
func (e *Evaluator) View(ctx context.Context, each *catalog.Policy, kind schema.GroupVersionKind, live *unstructured.Unstructured) (*quotav1alpha1.ResourceClaim, error) {
	object := ObjectOf(kind, live)
	in := e.Input(live.Object)
	if err := e.Complete(ctx, &in, object.Name.Namespace, []*catalog.Policy{each}); err != nil {
		return nil, err
	}
	if matches, err := each.Matches(ctx, in); err != nil || !matches {
		return nil, err
	}
	view, err := each.Render(ctx, in)
	if err != nil || view == nil {
		return nil, err
	}

	name := e.nameOf(each, object, view)
	err = e.checkNamespace(ctx, name.Namespace, object)
	if IsTransient(err) {
		return nil, err
	}
	if err != nil {
		name.Namespace = e.SystemNamespace
	}
	view.Namespace, view.Name, view.GenerateName = name.Namespace, name.Name, ""
	claims.CompleteView(view, each.Name, claims.Viewed{Kind: kind, Name: object.Name, UID: object.UID, Created: live.GetCreationTimestamp().Time})
	return view, nil
}

// withCharges returns the claim of a policy for an object with its charges.
func withCharges(each *catalog.Policy, object Object, claim *quotav1alpha1.ResourceClaim, intent claims.Intent) (*Claim, error) {
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	return &Claim{
		Policy:   each.Name,
		Key:      ledgerstore.ObjectKey(claims.LabelValue(each.Name), string(object.UID)),
		Consumer: claim.Spec.ConsumerRef,
		Charges:  charges,
		Intent:   intent,
	}, nil
}

// checkNamespace checks whether the claim can exist in its namespace. If its name is taken, it gets another.
//
// The claim of a Namespace may not be in this Namespace. The claim goes after its object, and a Namespace after its
// content, so neither would ever go.
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

// Same reports whether two claims have the same consumer and charges. Nil means no demand.
func Same(a, b *Claim) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Consumer == b.Consumer && SameCharges(a.Charges, b.Charges)
}

// SameCharges reports whether charges are the same, in any order.
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

// Covers reports whether a claim has the same consumer as another and charges at least as much. Nil means no demand.
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
