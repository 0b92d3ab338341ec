package policy

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The entries of user.extra with the object of the user's control plane. The authenticator of a platform with control
// planes sets them.
const (
	parentGroupKey = "iam.miloapis.com/parent-api-group"
	parentKindKey  = "iam.miloapis.com/parent-type"
	parentNameKey  = "iam.miloapis.com/parent-name"
)

var errNoParent = errors.New("the template names no consumer, and the user works in the control plane of none: user.extra has no " +
	parentKindKey + " and " + parentNameKey + "; name the consumer in the policy")

// parentPays compiles an absent consumer: the parent of the user's control plane pays.
func (c *compiler) parentPays(path *field.Path) {
	c.usesRequest = true
	if c.bound != nil {
		c.addError(field.Required(path, c.bound.policies+" names the consumer: "+c.bound.reason))
	}
}

// payer returns the consumer of a policy's claim.
func (r *rendering) payer(ctx context.Context, p *ClaimPolicy, user UserInfo) quotav1alpha1.ConsumerRef {
	if !p.paysParent {
		return r.consumer(ctx, &p.consumer)
	}
	parent, ok := parentOf(user)
	if !ok && r.err == nil {
		r.err = &EvaluationError{Path: "spec.target.resourceClaimTemplate.spec.consumerRef", verb: "render", err: errNoParent}
	}
	return parent
}

// parentOf returns the object of a user's control plane, and false without a valid one.
func parentOf(user UserInfo) (parent quotav1alpha1.ConsumerRef, ok bool) {
	value := func(key string, rules fieldRules) string {
		values := user.Extra[key]
		if len(values) != 1 {
			return ""
		}
		if f := (&templateField{rules: rules}); len(f.invalidReasons(values[0])) > 0 {
			return ""
		}
		return values[0]
	}
	parent = quotav1alpha1.ConsumerRef{
		APIGroup: value(parentGroupKey, consumerAPIGroupRules),
		Kind:     value(parentKindKey, consumerKindRules),
		Name:     value(parentNameKey, consumerNameRules),
	}
	return parent, parent.Kind != "" && parent.Name != ""
}
