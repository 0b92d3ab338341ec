package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// addObjects adds objects of Bursar's own kinds to a plan. It notes fields unknown to Bursar.
func (p *Plan) addObjects(objects []*unstructured.Unstructured, before *earlier) error {
	declared := map[string]bool{}
	for _, object := range objects {
		declared[objectRef(object.GetKind(), object.GetNamespace(), object.GetName())] = true
	}
	for _, object := range objects {
		var err error
		switch object.GetKind() {
		case "ResourceRegistration":
			p.Registrations, err = appendDecoded(p.Registrations, object)
		case "ResourceGrant":
			err = p.addGrant(object, before, declared)
		case "ClaimCreationPolicy":
			p.Policies, err = appendDecoded(p.Policies, object)
		case "GrantCreationPolicy":
			err = p.addGrantPolicy(object, before, declared)
		default:
			err = fmt.Errorf("there is no such kind in an import")
		}
		what := object.GetKind() + " " + quotakinds.Name(object)
		if err != nil {
			return fmt.Errorf("take over %s: %w", what, err)
		}
		for _, field := range lostFields(object) {
			p.Notes = append(p.Notes, Note{what + ": " + field, "Bursar has no such field, and leaves it out"})
		}
	}
	return nil
}

// addGrant adds a grant. It divides one with more allowances than Bursar takes, unless it already exists here.
func (p *Plan) addGrant(object *unstructured.Unstructured, before *earlier, declared map[string]bool) error {
	g, err := decoded[quotav1alpha1.ResourceGrant](object)
	if err != nil {
		return err
	}
	for _, a := range g.Spec.Allowances {
		p.TakenOver = append(p.TakenOver, TakenOver{
			From: objectRef("ResourceGrant", g.Namespace, g.Name), Resource: a.ResourceType, ConsumerRef: g.Spec.ConsumerRef, ResourceType: a.ResourceType,
			Limit: sumOf(a.Buckets),
		})
	}
	if isInPlace(g) {
		p.Grants = append(p.Grants, g)
		return nil
	}
	all := divided(g.Spec.Allowances, g.Name, func(name string) []string {
		if name != g.Name && declared[objectRef("ResourceGrant", g.Namespace, name)] {
			return nil // an object of its own
		}
		return before.granted(g.Namespace, name)
	})
	for _, n := range sortedKeys(all) {
		one := g.DeepCopy()
		one.Name, one.Spec.Allowances = part(g.Name, n), all[n]
		p.Grants = append(p.Grants, one)
	}
	return nil
}

// addGrantPolicy adds a policy for grants. It divides one with more allowances than Bursar takes, unless it already
// exists here. Each part makes grants of its own. A name in the template gets a suffix; generated ones differ anyway.
func (p *Plan) addGrantPolicy(object *unstructured.Unstructured, before *earlier, declared map[string]bool) error {
	policy, err := decoded[quotav1alpha1.GrantCreationPolicy](object)
	if err != nil {
		return err
	}
	if isInPlace(policy) {
		p.GrantPolicies = append(p.GrantPolicies, policy)
		return nil
	}
	all := divided(policy.Spec.Target.ResourceGrantTemplate.Spec.Allowances, policy.Name, func(name string) []string {
		if name != policy.Name && declared[objectRef("GrantCreationPolicy", "", name)] {
			return nil // an object of its own
		}
		return before.grantedByPolicy(name)
	})
	for _, n := range sortedKeys(all) {
		one := policy.DeepCopy()
		one.Name = part(policy.Name, n)
		template := &one.Spec.Target.ResourceGrantTemplate
		if template.Spec.Allowances = all[n]; template.Metadata.Name != "" {
			template.Metadata.Name = part(template.Metadata.Name, n)
		}
		p.GrantPolicies = append(p.GrantPolicies, one)
	}
	return nil
}

// divided divides the allowances of a declared object among parts with room for allowancesMax each. A resource type
// stays in the part that has it since an earlier import: typesOf returns the types in each, by its name.
func divided(allowances []quotav1alpha1.Allowance, name string, typesOf func(name string) []string) map[int][]quotav1alpha1.Allowance {
	earlierOf := func(n int) []string { return typesOf(part(name, n)) }
	if len(allowances) <= allowancesMax && len(earlierOf(2)) == 0 {
		return map[int][]quotav1alpha1.Allowance{1: allowances}
	}
	counts, largest := map[string]int{}, 1
	for i := range allowances {
		resourceType := allowances[i].ResourceType
		counts[resourceType]++
		largest = max(largest, counts[resourceType])
	}
	all := map[int][]quotav1alpha1.Allowance{}
	for n, types := range parts(sortedKeys(counts), max(1, allowancesMax/largest), earlierOf) {
		for i := range allowances {
			if slices.Contains(types, allowances[i].ResourceType) {
				all[n] = append(all[n], allowances[i])
			}
		}
	}
	return all
}

func sumOf(buckets []quotav1alpha1.Bucket) int64 {
	sum := int64(0)
	for _, b := range buckets {
		sum += b.Amount
	}
	return sum
}

func appendDecoded[T any](all []*T, object *unstructured.Unstructured) ([]*T, error) {
	one, err := decoded[T](object)
	if err != nil {
		return nil, err
	}
	return append(all, one), nil
}

func decoded[T any](object *unstructured.Unstructured) (*T, error) {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	one := new(T)
	if err := json.Unmarshal(content, one); err != nil {
		return nil, err
	}
	return one, nil
}

// lostFields returns the paths of the fields of an object unknown to Bursar.
func lostFields(object *unstructured.Unstructured) []string {
	known, err := knownFields(object)
	if err != nil {
		return []string{err.Error()}
	}
	var lost []string
	missing("spec", object.Object["spec"], known["spec"], &lost)
	return lost
}

// knownFields returns the fields of an object that Bursar knows, without empty ones.
func knownFields(object *unstructured.Unstructured) (map[string]any, error) {
	var known any
	var err error
	switch object.GetKind() {
	case "ResourceRegistration":
		known, err = decoded[quotav1alpha1.ResourceRegistration](object)
	case "ResourceGrant":
		known, err = decoded[quotav1alpha1.ResourceGrant](object)
	case "ClaimCreationPolicy":
		known, err = decoded[quotav1alpha1.ClaimCreationPolicy](object)
	case "GrantCreationPolicy":
		known, err = decoded[quotav1alpha1.GrantCreationPolicy](object)
	default:
		return object.Object, nil
	}
	content, errEncode := json.Marshal(known)
	fields := map[string]any{}
	err = errors.Join(err, errEncode)
	if err == nil {
		err = utiljson.Unmarshal(content, &fields)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", object.GetKind(), quotakinds.Name(object), err)
	}
	return fields, nil
}

// missing adds the paths of the content of a value without a counterpart in another one. Empty values are nothing.
func missing(path string, from, in any, lost *[]string) {
	switch value := from.(type) {
	case map[string]any:
		other, _ := in.(map[string]any)
		for _, key := range sortedKeys(value) {
			missing(path+"."+key, value[key], other[key], lost)
		}
	case []any:
		other, _ := in.([]any)
		for i := range value {
			var counterpart any
			if i < len(other) {
				counterpart = other[i]
			}
			missing(fmt.Sprintf("%s[%d]", path, i), value[i], counterpart, lost)
		}
	case nil:
	default:
		if in == nil && value != "" && value != false {
			*lost = append(*lost, path)
		}
	}
}
