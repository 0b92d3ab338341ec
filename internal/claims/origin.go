package claims

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// origin is the origin of a policy's claim.
type origin struct {
	// policy is the label value of the policy.
	policy string
	kind   schema.GroupVersionKind
	object types.NamespacedName
	uid    types.UID
	at     time.Time
}

// setMarks sets the standard labels and annotations on a policy's claim.
func setMarks(claim *quotav1alpha1.ResourceClaim, origin origin) {
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Labels[quotav1alpha1.LabelAutoCreated] = "true"
	claim.Labels[quotav1alpha1.LabelPolicy] = origin.policy
	claim.Labels[quotav1alpha1.LabelGVK] = KindLabel(origin.kind)
	claim.Annotations[quotav1alpha1.AnnotationCreatedBy] = quotav1alpha1.CreatedByClaimCreation
	claim.Annotations[quotav1alpha1.AnnotationCreatedAt] = origin.at.UTC().Format(time.RFC3339)
	claim.Annotations[quotav1alpha1.AnnotationResourceName] = origin.object.Name
	claim.Annotations[quotav1alpha1.AnnotationResourceUID] = string(origin.uid)
}

// setOwner makes the object own its claim, if the namespaces allow it.
func setOwner(claim *quotav1alpha1.ResourceClaim, origin origin) {
	if origin.object.Namespace != "" && origin.object.Namespace != claim.Namespace {
		return
	}
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: origin.kind.GroupVersion().String(), Kind: origin.kind.Kind, Name: origin.object.Name, UID: origin.uid,
		Controller: new(false), BlockOwnerDeletion: new(false),
	}}
}

// PolicyOf returns the label value of a claim's policy: its name, unless it is too long for a label.
func PolicyOf(claim *quotav1alpha1.ResourceClaim) string {
	return claim.Labels[quotav1alpha1.LabelPolicy]
}

// KindLabel returns the label value of a kind: group.version.Kind, or version.Kind for the core group, unless that is
// too long.
func KindLabel(kind schema.GroupVersionKind) string {
	if kind.Group == "" {
		return LabelValue(kind.Version + "." + kind.Kind)
	}
	return LabelValue(kind.Group + "." + kind.Version + "." + kind.Kind)
}

// LabelValue fits s into a label value. It cuts a long value, and ends it in a hash of the whole.
func LabelValue(s string) string {
	if len(s) <= validation.LabelValueMaxLength {
		return s
	}
	suffix := "-" + naming.Suffix(s)
	return s[:validation.LabelValueMaxLength-len(suffix)] + suffix
}

// GeneratedName completes the prefix of a name. The same policy and object always get the same name.
func GeneratedName(prefix, policy string, uid types.UID) string {
	suffix := naming.Suffix(policy, string(uid))
	if room := validation.DNS1123SubdomainMaxLength - len(suffix); len(prefix) > room {
		prefix = prefix[:room]
	}
	return prefix + suffix
}
