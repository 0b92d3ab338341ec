package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/usage"
	"github.com/bursar/bursar/internal/usage/holders"
)

const (
	// holdersMax is the number of named holders of a resource type.
	holdersMax = 3
	// consumersMax bounds how many consumers of one object an explanation has.
	consumersMax = 100
)

// heldFor returns the charges of an object: what it demands if it counts, and its claims, granted or waiting.
func (r *Reader) heldFor(ctx context.Context, e *Explanation, object *unstructured.Unstructured) ([]Payment, error) {
	if object.GetName() == "" {
		return nil, nil
	}
	of := quotav1alpha1.UnversionedObjectReference{
		APIGroup: object.GroupVersionKind().Group, Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
	}
	var list quotav1alpha1.ResourceClaimList
	if _, err := r.list(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the claims: %w", err)
	}
	isOther := func(claim quotav1alpha1.ResourceClaim) bool { return claim.Spec.ResourceRef != of }
	counted, err := r.ask(ctx, e, holders.Question{Object: &of, Max: consumersMax})
	if err != nil {
		return nil, err
	}

	var found []Payment
	for _, h := range holders.Join(slices.DeleteFunc(list.Items, isOther), counted) {
		found = append(found, paymentOf(&h))
	}
	return found, nil
}

// ask asks which objects count, and notes what is missing in the answer.
func (r *Reader) ask(ctx context.Context, e *Explanation, question holders.Question) (*holders.Counted, error) {
	counted, err := (&holders.Asker{API: r.API, Namespace: r.Namespace}).Ask(ctx, question)
	if err != nil {
		return nil, err
	}
	for _, note := range counted.Notes() {
		if !slices.Contains(e.Notes, note) {
			e.Notes = append(e.Notes, note)
		}
	}
	return counted, nil
}

func paymentOf(h *holders.Holder) Payment {
	p := Payment{Consumer: h.Consumer, Requests: h.Requests, Claim: stateOf(h)}
	if h.Claim != nil {
		p.By = "ResourceClaim " + h.Claim.Namespace + "/" + h.Claim.Name
	} else {
		p.By = "ClaimCreationPolicy " + strings.Join(h.Policies, " and ")
	}
	return p
}

// stateGranted is the state of a granted claim, and of an object that counts.
const stateGranted = "granted"

func stateOf(h *holders.Holder) string {
	if h.Counts {
		return stateGranted
	}
	granted := apimeta.FindStatusCondition(h.Claim.Status.Conditions, quotav1alpha1.ConditionGranted)
	switch {
	case granted == nil:
		return "not decided yet"
	case granted.Status == metav1.ConditionTrue:
		return stateGranted
	default:
		return fmt.Sprintf("not granted (%s): %s", granted.Reason, granted.Message)
	}
}

// namesOf names the largest holders of a resource type, and the number of waiting claims.
func namesOf(counted *holders.Counted, all []holders.Holder, consumer quotav1alpha1.ConsumerRef, resourceType string, unit usage.Unit) []string {
	type holder struct {
		name   string
		amount int64
	}
	var granted []holder
	waiting := 0
	for i := range all {
		h := &all[i]
		amount, isFor := h.AmountOf(resourceType)
		switch {
		case h.Consumer != consumer || !isFor:
		case stateOf(h) == stateGranted:
			granted = append(granted, holder{nameOfHolder(h), amount})
		default:
			waiting++
		}
	}
	slices.SortFunc(granted, func(a, b holder) int { return cmp.Or(cmp.Compare(b.amount, a.amount), cmp.Compare(a.name, b.name)) })
	var named []string
	for _, h := range granted[:min(len(granted), holdersMax)] {
		named = append(named, fmt.Sprintf("%s holds %s", h.name, unit.Amount(h.amount)))
	}
	more := int64(len(granted)-len(named)) + counted.More
	if counted.Hidden != nil {
		more += counted.Hidden.Objects
	}
	if more > 0 {
		named = append(named, message.Count(more, "more holds the rest", "more hold the rest"))
	}
	if waiting > 0 {
		named = append(named, message.Count(waiting, "claim waits", "claims wait"))
	}
	return named
}

// nameOfHolder names an object, or a claim without one.
func nameOfHolder(h *holders.Holder) string {
	of := h.Subject()
	switch {
	case of != h.Object:
		return of.Kind + " " + of.Namespace + "/" + of.Name
	case of.Namespace != "":
		return of.Kind + " " + of.Name + " in namespace " + of.Namespace
	default:
		return of.Kind + " " + of.Name
	}
}
