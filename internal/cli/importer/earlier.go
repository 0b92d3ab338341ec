package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// prunable are the resources with objects of imports, in the order of deletion: users before the used.
var prunable = []schema.GroupVersionResource{claimPolicies, grantPolicies, grants, registrations, consumersAPI}

// earlier are the objects of earlier imports from a former system, as the server has them now. The zero value is a
// server without such.
type earlier struct {
	policies map[string]*quotav1alpha1.ClaimCreationPolicy
	grants   map[string]*quotav1alpha1.ResourceGrant // by namespace/name
	// objects are all objects of these imports, by resource.
	objects map[schema.GroupVersionResource][]*unstructured.Unstructured
	// others has the former system of each other object, by its key. It is empty for an object without import.
	others map[string]string
}

func newEarlier() *earlier {
	return &earlier{
		policies: map[string]*quotav1alpha1.ClaimCreationPolicy{}, grants: map[string]*quotav1alpha1.ResourceGrant{},
		objects: map[schema.GroupVersionResource][]*unstructured.Unstructured{}, others: map[string]string{},
	}
}

// readEarlier reads the objects of earlier imports.
func (i *importer) readEarlier(ctx context.Context) (*earlier, error) {
	e := newEarlier()
	for _, resource := range prunable {
		_, err := quotakinds.Each(ctx, i.api, resource, "", func(object *unstructured.Unstructured) error {
			if from := object.GetLabels()[quotav1alpha1.LabelImportedFrom]; from != i.From {
				e.others[keyOf(resource, object)] = from
				return nil
			}
			return e.add(resource, object)
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return e, nil
}

func (e *earlier) add(resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	e.objects[resource] = append(e.objects[resource], object)
	var err error
	switch resource {
	case claimPolicies:
		e.policies[object.GetName()], err = decoded[quotav1alpha1.ClaimCreationPolicy](object)
	case grants:
		e.grants[quotakinds.Name(object)], err = decoded[quotav1alpha1.ResourceGrant](object)
	}
	if err != nil {
		return fmt.Errorf("decode %s %s: %w", object.GetKind(), quotakinds.Name(object), err)
	}
	return nil
}

// requested returns the resource types requested by a policy.
func (e *earlier) requested(policy string) []string {
	if p := e.policies[policy]; p != nil {
		return p.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes()
	}
	return nil
}

// granted returns the resource types of a grant.
func (e *earlier) granted(namespace, name string) []string {
	if g := e.grants[namespace+"/"+name]; g != nil {
		return g.Spec.ResourceTypes()
	}
	return nil
}

// grantedByPolicy returns the resource types that a policy for grants gives.
func (e *earlier) grantedByPolicy(name string) []string {
	for _, object := range e.objects[grantPolicies] {
		if object.GetName() != name {
			continue
		}
		if p, err := decoded[quotav1alpha1.GrantCreationPolicy](object); err == nil {
			return p.Spec.Target.ResourceGrantTemplate.Spec.ResourceTypes()
		}
	}
	return nil
}

// modeFor returns the mode of a policy in a new import. It is that of the policy until now. A new policy has the mode
// shared by all policies for its consumer or, without such, by all policies. It is empty if these differ, or if there
// are none.
func (e *earlier) modeFor(p *quotav1alpha1.ClaimCreationPolicy) quotav1alpha1.EnforcementMode {
	if same := e.policies[p.Name]; same != nil {
		return modeOf(same)
	}
	ofConsumer, ofAll := map[quotav1alpha1.EnforcementMode]bool{}, map[quotav1alpha1.EnforcementMode]bool{}
	for _, other := range e.policies {
		ofAll[modeOf(other)] = true
		if other.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef == p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef {
			ofConsumer[modeOf(other)] = true
		}
	}
	if len(ofConsumer) == 0 {
		ofConsumer = ofAll
	}
	if len(ofConsumer) != 1 {
		return ""
	}
	return sortedKeys(ofConsumer)[0]
}

func modeOf(p *quotav1alpha1.ClaimCreationPolicy) quotav1alpha1.EnforcementMode {
	if p.Spec.EnforcementMode == "" {
		return quotav1alpha1.EnforcementModeEnforce
	}
	return p.Spec.EnforcementMode
}

// modeOfLimit returns the strictest mode of the policies for a limit. It is Audit without policies.
func (e *earlier) modeOfLimit(consumer quotav1alpha1.ConsumerRef, resourceType string) quotav1alpha1.EnforcementMode {
	strictest := 0
	for _, p := range e.policies {
		charged := p.Spec.Target.ResourceClaimTemplate.Spec
		isFor := charged.ConsumerRef == consumer || strings.Contains(charged.ConsumerRef.Name, "{{") || charged.ConsumerRef == (quotav1alpha1.ConsumerRef{})
		if isFor && p.IsEnabled() && slices.Contains(charged.ResourceTypes(), resourceType) {
			strictest = max(strictest, slices.Index(modes, modeOf(p)))
		}
	}
	return modes[strictest]
}

func isEnforced(mode quotav1alpha1.EnforcementMode) bool {
	return mode != quotav1alpha1.EnforcementModeAudit
}

// limitsWithoutSource returns the enforced limits whose object in the former system is gone, with their present
// amounts. The object probably went because Bursar enforces its limits now.
func (e *earlier) limitsWithoutSource(source string, exists map[string]bool) ([]Limit, error) {
	present := map[quotav1alpha1.ConsumerRef]map[string]int64{}
	for _, g := range e.grants {
		if present[g.Spec.ConsumerRef] == nil {
			present[g.Spec.ConsumerRef] = map[string]int64{}
		}
		for _, a := range g.Spec.Allowances {
			present[g.Spec.ConsumerRef][a.ResourceType] += sumOf(a.Buckets)
		}
	}
	var left []Limit
	for _, name := range sortedKeys(e.grants) {
		g := e.grants[name]
		text, isFirst := g.Annotations[quotav1alpha1.AnnotationImportedSource]
		if !isFirst {
			continue
		}
		var limits []Limit
		if err := json.Unmarshal([]byte(text), &limits); err != nil {
			return nil, fmt.Errorf("read the annotation %s of ResourceGrant %s, which a person must have changed: %w; with --prune the import does not need it",
				quotav1alpha1.AnnotationImportedSource, name, err)
		}
		for _, l := range limits {
			if exists[l.From] {
				continue
			}
			l.kept = map[string]int64{}
			for hard := range l.Hard {
				resourceType := account{hard, l.Scopes}.resourceType(source)
				amount, isPresent := present[g.Spec.ConsumerRef][resourceType]
				if isPresent && isEnforced(e.modeOfLimit(g.Spec.ConsumerRef, resourceType)) {
					l.kept[resourceType] = amount
				}
			}
			if len(l.kept) > 0 {
				left = append(left, l)
			}
		}
	}
	return left, nil
}

// Leftover is an object or a limit of an earlier import that the former system no longer has.
type Leftover struct {
	Object string                        `json:"object"`
	Mode   quotav1alpha1.EnforcementMode `json:"mode,omitempty"`
	// ResourceType, ConsumerRef and Limit are those of a limit.
	ResourceType string                     `json:"resourceType,omitempty"`
	ConsumerRef  *quotav1alpha1.ConsumerRef `json:"consumerRef,omitempty"`
	Limit        *int64                     `json:"limit,omitempty"`

	// key is the key of an object that the former system no longer has at all.
	key string
}

// leftovers returns the objects of earlier imports that a plan lacks, and the limits that its grants lack.
func (e *earlier) leftovers(plan *Plan) ([]Leftover, error) {
	planned, err := plan.placed("")
	if err != nil {
		return nil, err
	}
	isPlanned, limits := map[string]bool{}, map[used]bool{}
	for _, each := range planned {
		isPlanned[keyOf(each.resource, each.object)] = true
	}
	for _, g := range plan.Grants {
		for _, a := range g.Spec.Allowances {
			limits[used{g.Spec.ConsumerRef, a.ResourceType}] = true
		}
	}
	var all []Leftover
	for _, resource := range prunable {
		for _, object := range e.objects[resource] {
			key := keyOf(resource, object)
			name := objectRef(object.GetKind(), object.GetNamespace(), object.GetName())
			switch {
			case isInPlace(object), plan.invalid[key]:
			case resource == grants:
				all = append(all, e.leftLimits(name, key, e.grants[quotakinds.Name(object)], limits, isPlanned[key])...)
			case isPlanned[key]:
			case resource == claimPolicies:
				all = append(all, Leftover{Object: name, key: key, Mode: modeOf(e.policies[object.GetName()])})
			default:
				all = append(all, Leftover{Object: name, key: key})
			}
		}
	}
	return all, nil
}

// leftLimits returns the limits of an earlier grant that a plan lacks: all of them, or those that a grant that stays
// has lost, because a person removed them in the former system.
func (e *earlier) leftLimits(name, key string, g *quotav1alpha1.ResourceGrant, planned map[used]bool, stays bool) []Leftover {
	if stays {
		key = ""
	}
	var all []Leftover
	for _, a := range g.Spec.Allowances {
		if !stays || !planned[used{g.Spec.ConsumerRef, a.ResourceType}] {
			all = append(all, Leftover{
				Object: name, Mode: e.modeOfLimit(g.Spec.ConsumerRef, a.ResourceType),
				ResourceType: a.ResourceType, ConsumerRef: &g.Spec.ConsumerRef, Limit: new(sumOf(a.Buckets)), key: key,
			})
		}
	}
	return all
}

// enforcedTypes are the resource types requested by enforced policies.
func (e *earlier) enforcedTypes() map[string]bool {
	types := map[string]bool{}
	for _, p := range e.policies {
		for _, resourceType := range e.requested(p.Name) {
			if isEnforced(modeOf(p)) && p.IsEnabled() {
				types[resourceType] = true
			}
		}
	}
	return types
}

// keysOfEnforced returns the keys of objects behind enforced limits: enforced policies, and the grants and
// registrations of their resource types.
func (e *earlier) keysOfEnforced() map[string]bool {
	types, keys := e.enforcedTypes(), map[string]bool{}
	for resource, objects := range e.objects {
		for _, object := range objects {
			isKept := false
			switch resource {
			case claimPolicies:
				isKept = isEnforced(modeOf(e.policies[object.GetName()]))
			case grants:
				isKept = slices.ContainsFunc(e.grants[quotakinds.Name(object)].Spec.ResourceTypes(), func(t string) bool { return types[t] })
			case registrations:
				name, _, _ := unstructured.NestedString(object.Object, "spec", "resourceType") //nolint:errcheck // the schema has a text there
				isKept = types[name]
			case grantPolicies:
				p, err := decoded[quotav1alpha1.GrantCreationPolicy](object)
				isKept = err == nil && slices.ContainsFunc(p.Spec.Target.ResourceGrantTemplate.Spec.ResourceTypes(), func(t string) bool { return types[t] })
			}
			if isKept {
				keys[keyOf(resource, object)] = true
			}
		}
	}
	return keys
}

// settle decides about the objects of earlier imports that a plan lacks. Those of the kinds that people declared for
// the former system stay if they are enforced; other kinds are part of the plan then. isPruned deletes all.
func (e *earlier) settle(plan *Plan, isPruned bool) error {
	all, err := e.leftovers(plan)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	if !isPruned && plan.isDeclared {
		kept = e.keysOfEnforced()
	}
	plan.kept = kept
	for _, l := range all {
		if kept[l.key] {
			plan.Kept = append(plan.Kept, l)
			if g := e.grants[strings.TrimPrefix(l.Object, "ResourceGrant ")]; g != nil && !slices.Contains(plan.made, g) {
				plan.made = append(plan.made, g)
			}
		} else {
			plan.Deleted = append(plan.Deleted, l)
		}
	}
	maps.Copy(kept, plan.invalid)
	return nil
}
