package importer

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// miloResources are the kinds that people declare for Milo. Bursar has the same ones, in the same group.
var miloResources = []string{"resourceregistrations", "resourcegrants", "grantcreationpolicies", "claimcreationpolicies"}

// readMilo reads people's declarations for Milo.
func readMilo(ctx context.Context, c *cluster) (*reading, error) {
	var all []*unstructured.Unstructured
	for _, resource := range miloResources {
		objects, err := readAll[map[string]any](ctx, c, quotav1alpha1.GroupVersion.WithResource(resource))
		if err != nil {
			return nil, err
		}
		for _, content := range objects {
			all = append(all, &unstructured.Unstructured{Object: content})
		}
	}
	return fromMilo(all, c.isTarget)
}

// fromMilo takes over objects as they are, in place if they are on the target cluster. Policies for claims get the mode
// Audit. Milo has no such mode. Grants made by policies stay where they are: the policies make them again.
//
// Milo and Bursar have the same kinds in the same group. So on the target cluster nothing distinguishes the objects for
// Milo from those for Bursar, with two exceptions: the label of another import, and a mode. Milo has no modes, so a
// policy with the mode Warn or Audit is for Bursar. fromMilo leaves out these.
func fromMilo(objects []*unstructured.Unstructured, inPlace bool) (*reading, error) {
	r := &reading{objectCount: len(objects)}
	granted := grantTriggers(objects)
	var owned []string
	for _, object := range objects {
		isMarked := object.GetKind() == "ResourceGrant" && quotakinds.IsFromPolicy(object)
		if isMarked || granted[ownerKind(object)] {
			g, err := decoded[quotav1alpha1.ResourceGrant](object)
			if err != nil {
				return nil, fmt.Errorf("decode %s %s: %w", object.GetKind(), quotakinds.Name(object), err)
			}
			r.made = append(r.made, g)
			if !isMarked {
				owned = append(owned, g.Namespace+"/"+g.Name)
			}
			continue
		}
		name := objectRef(object.GetKind(), object.GetNamespace(), object.GetName())
		if reason := notMilos(object, inPlace); reason != "" {
			r.note(name, reason)
			continue
		}
		declared := quotakinds.Declaration(object)
		if err := mark(declared, inPlace); err != nil {
			return nil, fmt.Errorf("take over %s: %w", name, err)
		}
		r.objects = append(r.objects, declared)
	}
	if len(r.made) > 0 {
		r.note("ResourceGrants that policies made", "the policies make them again")
	}
	if len(owned) > 0 {
		r.note("ResourceGrants with an owner", fmt.Sprintf("a policy makes grants for such owners, so these count as its own, and it makes them again: %s; "+
			"if a person made one, create it here without the owner", strings.Join(owned, ", ")))
	}
	r.note("ResourceClaims", "Bursar makes them for the objects of policies; services have to create theirs again")
	return r, nil
}

// grantTriggers returns the kinds of objects with grants by policies.
func grantTriggers(objects []*unstructured.Unstructured) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, object := range objects {
		if object.GetKind() == "GrantCreationPolicy" {
			trigger, _, _ := unstructured.NestedStringMap(object.Object, "spec", "trigger", "resource") //nolint:errcheck // the schema has texts there
			kinds[schema.FromAPIVersionAndKind(trigger["apiVersion"], trigger["kind"]).GroupKind()] = true
		}
	}
	delete(kinds, schema.GroupKind{}) // the kind of no owner
	return kinds
}

// ownerKind returns the kind of the controller of a grant. On a grant by a policy, Milo sets no other mark than this
// reference to the object that the grant is for.
func ownerKind(object *unstructured.Unstructured) schema.GroupKind {
	owner := metav1.GetControllerOf(object)
	if owner == nil || object.GetKind() != "ResourceGrant" {
		return schema.GroupKind{}
	}
	return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
}

// notMilos returns the reason why an object does not belong to Milo, if there is one.
func notMilos(object *unstructured.Unstructured, inPlace bool) string {
	from := object.GetLabels()[quotav1alpha1.LabelImportedFrom]
	if from != "" && from != "milo" {
		return fmt.Sprintf("it has the label %s=%s, and stays as it is", quotav1alpha1.LabelImportedFrom, from)
	}
	mode := enforcementMode(object)
	if inPlace && from == "" && (mode == quotav1alpha1.EnforcementModeWarn || mode == quotav1alpha1.EnforcementModeAudit) {
		return fmt.Sprintf("Milo has no mode %s, so it is a policy for Bursar, and stays as it is", mode)
	}
	return ""
}

// mark adds the marks of the import to an object, and gives a policy for claims the mode Audit.
func mark(object *unstructured.Unstructured, inPlace bool) error {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	isNew := labels[quotav1alpha1.LabelImportedFrom] == ""
	labels = with(labels, quotav1alpha1.LabelImportedFrom, "milo")
	if inPlace {
		annotations = with(annotations, quotav1alpha1.AnnotationImportedInPlace, "true")
	}
	if object.GetKind() == "ClaimCreationPolicy" {
		if mode := enforcementMode(object); inPlace && isNew {
			annotations = with(annotations, quotav1alpha1.AnnotationImportedMode, string(cmp.Or(mode, quotav1alpha1.EnforcementModeEnforce)))
		}
		err := unstructured.SetNestedField(object.Object, string(quotav1alpha1.EnforcementModeAudit), "spec", "enforcementMode")
		if err == nil && !inPlace {
			err = unstructured.SetNestedField(object.Object, "milo", "spec", "target", "resourceClaimTemplate", "metadata", "labels", quotav1alpha1.LabelImportedFrom)
		}
		if err != nil {
			return err
		}
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return nil
}

func with(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// enforcementMode returns the mode of a policy for claims. It is empty for other objects.
func enforcementMode(object *unstructured.Unstructured) quotav1alpha1.EnforcementMode {
	mode, _, _ := unstructured.NestedString(object.Object, "spec", "enforcementMode") //nolint:errcheck // the schema has a text there
	return quotav1alpha1.EnforcementMode(mode)
}

// marksOf are the fields that an import changes in an object older than it.
func marksOf(object *unstructured.Unstructured) map[string]any {
	annotations := map[string]any{quotav1alpha1.AnnotationImportedInPlace: "true"}
	marks := map[string]any{"metadata": map[string]any{"labels": map[string]any{quotav1alpha1.LabelImportedFrom: object.GetLabels()[quotav1alpha1.LabelImportedFrom]}, "annotations": annotations}}
	if mode := enforcementMode(object); mode != "" {
		marks["spec"] = map[string]any{"enforcementMode": string(mode)}
		if before := object.GetAnnotations()[quotav1alpha1.AnnotationImportedMode]; before != "" {
			annotations[quotav1alpha1.AnnotationImportedMode] = before
		}
	}
	return marks
}
