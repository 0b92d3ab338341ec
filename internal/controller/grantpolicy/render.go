package grantpolicy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

// complete sets the name, namespace and marks of a rendered grant and, if possible, its owner.
func complete(grant *quotav1alpha1.ResourceGrant, policy *quotav1alpha1.GrantCreationPolicy, object *unstructured.Unstructured, systemNamespace string, ref remote.Ref) {
	if grant.Name == "" {
		grant.Name, grant.GenerateName = claims.GeneratedName(grant.GenerateName, policy.Name, object.GetUID()), ""
	}
	if grant.Namespace == "" {
		grant.Namespace = object.GetNamespace()
	}
	if grant.Namespace == "" {
		grant.Namespace = systemNamespace
	}
	fromTemplate := templateKeys{slices.Sorted(maps.Keys(grant.Labels)), slices.Sorted(maps.Keys(grant.Annotations))}
	if grant.Labels == nil {
		grant.Labels = map[string]string{}
	}
	if grant.Annotations == nil {
		grant.Annotations = map[string]string{}
	}
	grant.Labels[quotav1alpha1.LabelAutoCreated] = "true"
	grant.Labels[quotav1alpha1.LabelPolicy] = claims.LabelValue(policy.Name)
	grant.Labels[quotav1alpha1.LabelPolicyUID] = string(policy.UID)
	if _, given := grant.Labels[quotav1alpha1.LabelSource]; !given {
		grant.Labels[quotav1alpha1.LabelSource] = claims.LabelValue(policy.Name)
	}
	grant.Annotations[quotav1alpha1.AnnotationCreatedBy] = quotav1alpha1.CreatedByGrantCreation
	grant.Annotations[quotav1alpha1.AnnotationResourceName] = object.GetName()
	grant.Annotations[quotav1alpha1.AnnotationResourceUID] = string(object.GetUID())
	if mark := ref.Mark(); mark != "" {
		grant.Annotations[quotav1alpha1.AnnotationParentContext] = mark
	}
	if fromTemplate.any() {
		grant.Annotations[quotav1alpha1.AnnotationTemplateKeys] = fromTemplate.encode()
	}
	// The garbage collector deletes dependents with an owner in another namespace.
	if ref.IsLocal() && (object.GetNamespace() == "" || object.GetNamespace() == grant.Namespace) {
		grant.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(),
			Controller: new(true), BlockOwnerDeletion: new(false),
		}}
	}
}

// templateKeys are the label and annotation keys of a grant's template.
type templateKeys struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}

func (k templateKeys) any() bool { return len(k.Labels)+len(k.Annotations) > 0 }

func (k templateKeys) encode() string {
	encoded, err := json.Marshal(k)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// templateKeysOf decodes the keys on a grant. Invalid keys count as none.
func templateKeysOf(grant *quotav1alpha1.ResourceGrant) templateKeys {
	var keys templateKeys
	if err := json.Unmarshal([]byte(grant.Annotations[quotav1alpha1.AnnotationTemplateKeys]), &keys); err != nil {
		return templateKeys{}
	}
	return keys
}

// created returns a new grant from the desired one.
func created(desired *quotav1alpha1.ResourceGrant, now time.Time) *quotav1alpha1.ResourceGrant {
	grant := desired.DeepCopy()
	grant.Annotations[quotav1alpha1.AnnotationCreatedAt] = now.UTC().Format(time.RFC3339)
	return grant
}

// corrected returns the update of a grant, and whether it differs from the stored one. It keeps labels and annotations
// from neither the template nor Bursar, because other clients might restore them each time.
func corrected(stored, desired *quotav1alpha1.ResourceGrant) (*quotav1alpha1.ResourceGrant, bool) {
	grant := stored.DeepCopy()
	if grant.Spec = *desired.Spec.DeepCopy(); !equality.Semantic.DeepEqual(stored.Spec, grant.Spec) {
		delete(grant.Annotations, quotav1alpha1.AnnotationChangedBy) // the journal would name the author of the undone change
	}
	earlier := templateKeysOf(stored)
	grant.Labels = overlay(grant.Labels, earlier.Labels, desired.Labels)
	grant.Annotations = overlay(grant.Annotations, append(earlier.Annotations, quotav1alpha1.AnnotationTemplateKeys), desired.Annotations)
	if grant.Annotations[quotav1alpha1.AnnotationCreatedAt] == "" && !stored.CreationTimestamp.IsZero() {
		grant.Annotations[quotav1alpha1.AnnotationCreatedAt] = stored.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	for _, owner := range desired.OwnerReferences {
		grant.OwnerReferences = slices.DeleteFunc(grant.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
		if metav1.GetControllerOfNoCopy(grant) != nil {
			owner.Controller = new(false) // only one owner can be the controller, and another owner is
		}
		grant.OwnerReferences = append(grant.OwnerReferences, owner)
	}
	return grant, !equality.Semantic.DeepEqual(stored, grant)
}

// overlay removes the dropped keys and sets the desired ones.
func overlay(stored map[string]string, dropped []string, desired map[string]string) map[string]string {
	if stored == nil {
		stored = map[string]string{}
	}
	for _, name := range dropped {
		if _, kept := desired[name]; !kept {
			delete(stored, name)
		}
	}
	maps.Copy(stored, desired)
	return stored
}

func describe(grant *quotav1alpha1.ResourceGrant) string {
	return fmt.Sprintf("ResourceGrant %s/%s", grant.Namespace, grant.Name)
}
