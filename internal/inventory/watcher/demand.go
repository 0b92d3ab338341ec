package watcher

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/inventory"
	kubenamespaces "github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/policy"
)

func unstructuredOf(obj any) (*unstructured.Unstructured, error) {
	if o, is := obj.(*unstructured.Unstructured); is {
		return o, nil
	}
	return nil, fmt.Errorf("counted objects: unexpected object of type %T", obj)
}

// count evaluates the policies for an object.
func (k *kindWatch) count(obj any) (*counted, error) {
	switch o := obj.(type) {
	case *counted:
		return o, nil
	case *claimcache.Claim:
		return k.countClaim(o), nil
	}
	object, err := unstructuredOf(obj)
	if err != nil {
		return nil, err
	}
	about := evaluator.ObjectOf(k.kind, object)
	identified, err := objectOf(about, object)
	if err != nil {
		return nil, err
	}

	o := &counted{Object: identified, isDeleting: object.GetDeletionTimestamp() != nil}
	if kubenamespaces.IsExempt(k.SystemNamespace, k.kind.GroupKind(), about.Name) {
		return o, nil
	}
	o.Demands, err = k.demandsInTheEnd(about, object.Object)
	return o, err
}

// demandsInTheEnd repeats demandsOf until it knows, or until the watch ends: an object that is left out would count as
// deleted. A policy that takes too long again and again is not applicable.
func (k *kindWatch) demandsInTheEnd(about evaluator.Object, content map[string]any) (demands []inventory.Demand, err error) {
	const first, most, slowMax = 50 * time.Millisecond, 2 * time.Second, 3
	slow := 0
	for pause := first; ; pause = min(2*pause, most) {
		if demands, err = k.demandsOf(about, content, slow < slowMax); err == nil {
			return demands, nil
		}
		if policy.TookTooLong(err) {
			slow++
		}
		k.Log.Error(err, "cannot tell what an object demands, will try again", "object", about.String())
		select {
		case <-k.ctx.Done():
			return nil, fmt.Errorf("count %s: %w", about, k.ctx.Err())
		case <-time.After(pause):
		}
	}
}

// demandsOf returns what an object demands by all policies. If a policy fails for the object, the object demands
// nothing by this policy: every replica can tell that, also one that starts later. A policy that takes too long is an
// error, unless isPatient is false.
func (k *kindWatch) demandsOf(about evaluator.Object, content map[string]any, isPatient bool) ([]inventory.Demand, error) {
	in, err := k.inputOf(about, content)
	if err != nil {
		return nil, err
	}
	var demands []inventory.Demand
	failed := map[string]error{}
	for _, p := range k.policies {
		consumer, charges, err := demandOf(k.ctx, p, in)
		switch {
		case policy.TookTooLong(err) && isPatient, evaluator.IsTransient(err) && !policy.TookTooLong(err):
			return nil, fmt.Errorf("evaluate ClaimCreationPolicy %s for %s: %w", p.Name, about, err)
		case err != nil:
			failed[p.Name] = err
			k.Log.V(1).Info("an object demands nothing by a policy that fails for it", "policy", p.Name, "object", about.String(), "error", err.Error())
		case len(charges) > 0:
			demands = append(demands, inventory.Demand{Policy: p.Name, Consumer: consumer, Charges: charges})
		}
	}
	k.failures.set(about, failed)
	return demands, nil
}

// inputOf returns the input of policies for an object.
func (k *kindWatch) inputOf(about evaluator.Object, content map[string]any) (in policy.Input, err error) {
	in = policy.Input{Object: content, WithoutRequest: true, Units: k.Catalog}
	if k.usesNamespaces && about.Name.Namespace != "" {
		in.NamespaceObject, err = k.namespaces.object(k.ctx, about.Name.Namespace)
	}
	return in, err
}

// demandOf returns what an object demands by a policy. Without charges it demands nothing.
func demandOf(ctx context.Context, p *catalog.Policy, in policy.Input) (consumer quotav1alpha1.ConsumerRef, charges []ledger.Charge, err error) {
	if matches, err := p.Matches(ctx, in); err != nil || !matches {
		return consumer, nil, err
	}
	claim, err := p.Render(ctx, in)
	if err != nil || claim == nil {
		return consumer, nil, err
	}
	charges, err = claims.Charges(claim.Spec.Requests)
	return claim.Spec.ConsumerRef, charges, err
}

func consumersOf(demands []inventory.Demand) []quotav1alpha1.ConsumerRef {
	consumers := make([]quotav1alpha1.ConsumerRef, 0, len(demands))
	for _, d := range demands {
		consumers = append(consumers, d.Consumer)
	}
	return consumers
}
