package importer

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// changes returns the objects of a plan that the server lacks, or has in another form.
func (i *importer) changes(all []placed, before *earlier) ([]placed, error) {
	present := map[string]*unstructured.Unstructured{}
	for resource, objects := range before.objects {
		for _, object := range objects {
			present[keyOf(resource, object)] = object
		}
	}
	for n := range i.target.namespaces {
		namespace := objectOf("v1", "Namespace", "", i.target.namespaces[n].Name, nil)
		namespace.SetAnnotations(i.target.namespaces[n].Annotations)
		present[keyOf(namespacesAPI, namespace)] = namespace
	}
	var changed []placed
	for _, each := range all {
		var err error
		if each.change, err = each.changeOf(present[keyOf(each.resource, each.object)]); err != nil {
			return nil, err
		}
		if each.change == nil || len(each.change) > 0 {
			changed = append(changed, each)
		}
	}
	return changed, nil
}

// changeOf returns the change of the object on the server, or nil without such. An import changes only its marks in an
// object older than it, and only its annotation in a namespace. All others are its own: their spec becomes the planned
// one.
func (p placed) changeOf(present *unstructured.Unstructured) (map[string]any, error) {
	if marks := p.marks(); marks != nil {
		if present == nil {
			present = &unstructured.Unstructured{}
		}
		return difference(marks, present.Object, false), nil
	}
	if present == nil {
		return nil, nil
	}
	known, err := knownFields(present)
	if err != nil {
		return nil, err
	}
	planned := map[string]any{"metadata": metadataOf(p.object, all)}
	compared := map[string]any{"metadata": metadataOf(present, func(field, key string) bool {
		values, _, _ := unstructured.NestedMap(p.object.Object, "metadata", field) //nolint:errcheck // a plan has a map there
		_, isPlanned := values[key]
		return isPlanned || isWritten(present, "metadata", field, key)
	})}
	if spec, hasSpec := p.object.Object["spec"].(map[string]any); hasSpec {
		planned["spec"], compared["spec"] = spec, withoutDefaults(known["spec"], spec)
		if now, isMap := compared["spec"].(map[string]any); isMap && spec["disabled"] == nil && !isWritten(present, "spec", "disabled") {
			delete(now, "disabled") // an administrator has switched the policy off
		}
	}
	return difference(planned, compared, true), nil
}

// marks returns the fields that an import changes in an object of others, or nil for its own objects.
func (p placed) marks() map[string]any {
	switch {
	case isInPlace(p.object):
		return marksOf(p.object)
	case p.resource == namespacesAPI:
		annotations, _, _ := unstructured.NestedMap(p.object.Object, "metadata", "annotations") //nolint:errcheck // a plan has a map there
		return map[string]any{"metadata": map[string]any{"annotations": annotations}}
	default:
		return nil
	}
}

// difference returns, as a merge patch, the planned fields that differ from the present ones. isWhole also removes
// those that are not planned.
func difference(planned, present map[string]any, isWhole bool) map[string]any {
	patch := map[string]any{}
	for key, value := range planned {
		below, isMap := value.(map[string]any)
		belowPresent, isPresentMap := present[key].(map[string]any)
		switch {
		case isMap && isPresentMap:
			if changed := difference(below, belowPresent, isWhole); len(changed) > 0 {
				patch[key] = changed
			}
		case !reflect.DeepEqual(value, present[key]):
			patch[key] = value
		}
	}
	for key := range present {
		if _, isPlanned := planned[key]; isWhole && !isPlanned {
			patch[key] = nil
		}
	}
	return patch
}

// withoutDefaults returns a present spec without the fields that Bursar or an administrator sets where a plan sets
// none. These are the defaults, in registrations the other name of the consumer kind, and in policies the switch, the
// admission mode and the mode of claims.
func withoutDefaults(present any, planned map[string]any) map[string]any {
	spec, _ := present.(map[string]any)
	for _, key := range []string{"enabled", "admission", "claims", "consumerType", "consumerTypeRef"} {
		if _, isPlanned := planned[key]; !isPlanned {
			delete(spec, key)
		}
	}
	trigger, _ := spec["trigger"].(map[string]any)
	plannedTrigger, _ := planned["trigger"].(map[string]any)
	if _, isPlanned := plannedTrigger["operations"]; !isPlanned && reflect.DeepEqual(trigger["operations"], []any{string(quotav1alpha1.TriggerOperationCreate)}) {
		delete(trigger, "operations")
	}
	return spec
}

// metadataOf returns some labels and annotations of an object.
func metadataOf(object *unstructured.Unstructured, has func(field, key string) bool) map[string]any {
	metadata := map[string]any{}
	for field, values := range map[string]map[string]string{"labels": object.GetLabels(), "annotations": object.GetAnnotations()} {
		some := map[string]any{}
		for key, value := range values {
			if has(field, key) {
				some[key] = value
			}
		}
		metadata[field] = some
	}
	return metadata
}

func all(string, string) bool { return true }

// isWritten reports whether an import wrote a field of an object.
func isWritten(object *unstructured.Unstructured, path ...string) bool {
	var keys []string
	for _, field := range path {
		keys = append(keys, "f:"+field)
	}
	for _, entry := range object.GetManagedFields() {
		var written map[string]any
		if entry.Manager != fieldManager || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &written) != nil {
			continue
		}
		if _, isIn, err := unstructured.NestedFieldNoCopy(written, keys...); isIn && err == nil {
			return true
		}
	}
	return false
}
