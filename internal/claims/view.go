package claims

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Viewed is an object whose demand a view shows.
type Viewed struct {
	Kind    schema.GroupVersionKind
	Name    types.NamespacedName
	UID     types.UID
	Created time.Time
}

// CompleteView makes a rendered claim the view of an object's demand by a policy: it sets the marks, the labels of the
// consumer and, if the namespaces allow it, the owner. A view holds nothing, so it has no finalizer.
func CompleteView(claim *quotav1alpha1.ResourceClaim, policy string, of Viewed) {
	from := origin{policy: LabelValue(policy), kind: of.Kind, object: of.Name, uid: of.UID, at: of.Created}
	setMarks(claim, from)
	setConsumerLabels(claim)
	claim.Labels[quotav1alpha1.LabelView] = "true"
	setOwner(claim, from)
}

// IsView reports whether a claim only shows what its object demands.
func IsView(claim *quotav1alpha1.ResourceClaim) bool {
	return claim.Labels[quotav1alpha1.LabelView] == "true"
}
