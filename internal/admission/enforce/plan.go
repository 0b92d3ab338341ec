package enforce

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/ledgerstore"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/policy"
)

// plannedClaim is a claim that a policy makes for an object, before it is reserved.
type plannedClaim struct {
	policy   string
	key      string
	consumer quotav1alpha1.ConsumerRef
	charges  []ledger.Charge
	// outline is what the claim will be made from.
	outline claims.Outline
}

// planClaim applies one policy. It returns nil if the policy's conditions leave the object out.
func (h *Handler) planClaim(ctx context.Context, c *create, p *catalog.Policy, input policy.Input) (*plannedClaim, error) {
	if matches, err := p.Matches(ctx, input); err != nil || !matches {
		return nil, err
	}
	claim, err := p.Render(ctx, input)
	if err != nil {
		return nil, err
	}
	if err := h.Catalog.CheckClaim(&claim.Spec); err != nil {
		return nil, err
	}
	name := h.nameClaim(claim, c, p.Name)
	if err := h.checkPlace(ctx, name.Namespace, c); err != nil {
		return nil, err
	}
	charges, err := claims.Charges(claim.Spec.Requests)
	if err != nil {
		return nil, err
	}
	return &plannedClaim{
		policy:   p.Name,
		key:      ledgerstore.ObjectKey(claims.LabelValue(p.Name), string(c.uid)),
		consumer: claim.Spec.ConsumerRef,
		charges:  charges,
		outline: claims.Outline{
			Claim: name, Kind: c.kind, Object: c.name, Labels: claim.Labels, Annotations: claim.Annotations,
		},
	}, nil
}

// nameClaim gives a rendered claim its place, where its template does not.
func (h *Handler) nameClaim(claim *quotav1alpha1.ResourceClaim, c *create, policy string) types.NamespacedName {
	return types.NamespacedName{
		Namespace: cmp.Or(claim.Namespace, c.name.Namespace, h.SystemNamespace),
		Name:      cmp.Or(claim.Name, claims.GeneratedName(claim.GenerateName, policy, c.uid)),
	}
}

// checkPlace makes sure that the claim can be created in its namespace. Its name may be taken;
// then it gets another.
func (h *Handler) checkPlace(ctx context.Context, namespace string, c *create) error {
	if namespace == c.name.Namespace {
		return nil
	}
	active, err := h.Namespaces.Active(ctx, namespace)
	if err != nil {
		return &transientError{fmt.Errorf("look up namespace %s: %w", namespace, err)}
	}
	if !active {
		return fmt.Errorf("its claim belongs in namespace %s, which does not exist or is being deleted", namespace)
	}
	return nil
}

func inputOf(request *admissionv1.AdmissionRequest, object map[string]any) policy.Input {
	extra := make(map[string][]string, len(request.UserInfo.Extra))
	for key, values := range request.UserInfo.Extra {
		extra[key] = values
	}
	return policy.Input{
		Object: object,
		User: policy.UserInfo{
			Name: request.UserInfo.Username, UID: request.UserInfo.UID, Groups: request.UserInfo.Groups, Extra: extra,
		},
		RequestInfo: policy.RequestInfo{
			Verb: "create", APIGroup: request.Resource.Group, APIVersion: request.Resource.Version,
			Resource: request.Resource.Resource, Subresource: request.SubResource,
			Namespace: request.Namespace, Name: request.Name,
		},
	}
}

// nameOf returns the object's own name, which generateName has already become.
func nameOf(request *admissionv1.AdmissionRequest, object map[string]any) types.NamespacedName {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	if name == "" {
		name = request.Name
	}
	return types.NamespacedName{Namespace: request.Namespace, Name: name}
}

func uidOf(object map[string]any) types.UID {
	uid, _, _ := unstructured.NestedString(object, "metadata", "uid")
	return types.UID(uid)
}

// byConsumer groups claims by whom they charge, in a fixed order: every replica reserves for
// several consumers in the same order.
func byConsumer(claims []*plannedClaim) [][]*plannedClaim {
	slices.SortFunc(claims, func(a, b *plannedClaim) int {
		return cmp.Or(cmp.Compare(naming.Ledger(a.consumer), naming.Ledger(b.consumer)), cmp.Compare(a.policy, b.policy))
	})
	var groups [][]*plannedClaim
	for i, claim := range claims {
		if i == 0 || claim.consumer != claims[i-1].consumer {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], claim)
	}
	return groups
}
