package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Origin is why a grant exists. At most one of Policy and Request is set.
type Origin struct {
	// Policy is the GrantCreationPolicy behind the grant, and Object the name of its object.
	Policy, Object string
	// Request is the QuotaRequest behind the grant, in the namespace of the grant.
	Request string
	// Source is the label of the same name, if it is not the policy.
	Source string
	// ChangedBy is the latest writer of the grant, or for a request its approver.
	ChangedBy string
}

// OriginOf returns the origin of a grant.
func OriginOf(grant *quotav1alpha1.ResourceGrant) Origin {
	annotations := grant.Annotations
	o := Origin{ChangedBy: annotations[quotav1alpha1.AnnotationChangedBy], Source: grant.Labels[quotav1alpha1.LabelSource]}
	if policy := grant.Labels[quotav1alpha1.LabelPolicy]; policy != "" && grant.Labels[quotav1alpha1.LabelPolicyUID] != "" {
		o.Policy, o.Object = policy, annotations[quotav1alpha1.AnnotationResourceName]
	} else if annotations[quotav1alpha1.AnnotationRequestUID] != "" {
		o.Request = annotations[quotav1alpha1.AnnotationRequest]
	}
	if o.Source == o.Policy {
		o.Source = ""
	}
	return o
}

// Part is a grant's contribution to a limit until a time. A grant with different ends of its allowances has several.
type Part struct {
	Grant  types.NamespacedName
	Origin Origin
	// IsKnown is unset if the user may not see the grant, or it has just changed. Then there is no origin.
	IsKnown bool
	// Amount is in base units.
	Amount int64
	// Until is when it ends, or zero.
	Until time.Time
}

// Name names the part for people: policy gold, request more, or grant base.
func (p *Part) Name() string {
	switch {
	case p.Origin.Policy != "":
		return "policy " + cmp.Or(p.Origin.Source, p.Origin.Policy)
	case p.Origin.Request != "":
		return "request " + p.Origin.Request
	default:
		return "grant " + p.Grant.Name
	}
}

// PartsOf returns the parts of a limit of a resource type, the largest first. The references are those of the effective
// grant: the grants that count now. Their origins are in the grants.
func PartsOf(resourceType string, refs []quotav1alpha1.EffectiveGrantRef, grants []quotav1alpha1.ResourceGrant, now time.Time) []Part {
	var parts []Part
	for _, ref := range refs {
		name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		at := slices.IndexFunc(grants, func(g quotav1alpha1.ResourceGrant) bool { return g.Namespace == ref.Namespace && g.Name == ref.Name })
		if at < 0 {
			parts = append(parts, Part{Grant: name, Amount: ref.Amount})
			continue
		}
		parts = append(parts, partsOfGrant(&grants[at], resourceType, ref.Amount, now)...)
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Amount, a.Amount) })
	return parts
}

// partsOfGrant returns the parts of one grant, by their ends. If the grant says otherwise than the limit, such as while
// a cap holds back its last change, the limit counts and its ends are unknown.
func partsOfGrant(grant *quotav1alpha1.ResourceGrant, resourceType string, amount int64, now time.Time) []Part {
	name := types.NamespacedName{Namespace: grant.Namespace, Name: grant.Name}
	byEnd := map[time.Time]int64{}
	sum := int64(0)
	for i := range grant.Spec.Allowances {
		allowance := &grant.Spec.Allowances[i]
		if allowance.ResourceType != resourceType || !grant.Spec.Counts(allowance, now) {
			continue
		}
		var end time.Time
		if until := grant.Spec.PeriodOf(allowance).NotAfter; until != nil {
			end = until.UTC()
		}
		for _, bucket := range allowance.Buckets {
			byEnd[end] += bucket.Amount
			sum += bucket.Amount
		}
	}
	whole := Part{Grant: name, Origin: OriginOf(grant), IsKnown: true, Amount: amount}
	if sum != amount {
		return []Part{whole}
	}
	var parts []Part
	for end, each := range byEnd {
		part := whole
		part.Amount, part.Until = each, end
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b Part) int { return a.Until.Compare(b.Until) })
	return parts
}

// Composition says how a limit comes about, such as "10 maps = policy gold: 8 maps + request more: 2 maps until
// 2026-03-31 00:00 UTC". It is empty without parts.
func Composition(unit Unit, limit int64, parts []Part) string {
	if len(parts) == 0 {
		return ""
	}
	texts := make([]string, 0, len(parts))
	for i := range parts {
		text := parts[i].Name() + ": " + unit.Amount(parts[i].Amount)
		if until := parts[i].Until; !until.IsZero() {
			text += " until " + until.UTC().Format("2006-01-02 15:04 MST")
		}
		texts = append(texts, text)
	}
	return unit.Amount(limit) + " = " + strings.Join(texts, " + ")
}
