package importer

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// addObjects adds objects of Bursar's own kinds to a plan. It notes fields unknown to Bursar.
func (p *Plan) addObjects(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		var err error
		switch object.GetKind() {
		case "ResourceRegistration":
			p.Registrations, err = appendDecoded(p.Registrations, object)
		case "ResourceGrant":
			p.Grants, err = appendDecoded(p.Grants, object)
		case "ClaimCreationPolicy":
			p.Policies, err = appendDecoded(p.Policies, object)
		case "GrantCreationPolicy":
			p.GrantPolicies, err = appendDecoded(p.GrantPolicies, object)
		default:
			err = fmt.Errorf("there is no such kind in an import")
		}
		what := object.GetKind() + " " + quotakinds.Name(object)
		if err != nil {
			return fmt.Errorf("take over %s: %w", what, err)
		}
		for _, field := range p.lostFields(object) {
			p.Notes = append(p.Notes, Note{what + ": " + field, "Bursar has no such field, and leaves it out"})
		}
	}
	for _, g := range p.Grants {
		for _, a := range g.Spec.Allowances {
			if len(objects) > 0 {
				p.TakenOver = append(p.TakenOver, TakenOver{
					From: objectRef("ResourceGrant", g.Namespace, g.Name), Resource: a.ResourceType, ConsumerRef: g.Spec.ConsumerRef, ResourceType: a.ResourceType,
					Limit: sumOf(a.Buckets),
				})
			}
		}
	}
	return nil
}

func sumOf(buckets []quotav1alpha1.Bucket) int64 {
	sum := int64(0)
	for _, b := range buckets {
		sum += b.Amount
	}
	return sum
}

func appendDecoded[T any](all []*T, object *unstructured.Unstructured) ([]*T, error) {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	decoded := new(T)
	if err := json.Unmarshal(content, decoded); err != nil {
		return nil, err
	}
	return append(all, decoded), nil
}

// lostFields returns the paths of the fields of an object without a counterpart in its last decoded form.
func (p *Plan) lostFields(object *unstructured.Unstructured) []string {
	var decoded any
	switch object.GetKind() {
	case "ResourceRegistration":
		decoded = p.Registrations[len(p.Registrations)-1]
	case "ResourceGrant":
		decoded = p.Grants[len(p.Grants)-1]
	case "ClaimCreationPolicy":
		decoded = p.Policies[len(p.Policies)-1]
	default:
		decoded = p.GrantPolicies[len(p.GrantPolicies)-1]
	}
	content, err := json.Marshal(decoded)
	if err != nil {
		return []string{err.Error()}
	}
	kept := map[string]any{}
	if err := json.Unmarshal(content, &kept); err != nil {
		return []string{err.Error()}
	}
	var lost []string
	missing("spec", object.Object["spec"], kept["spec"], &lost)
	return lost
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
