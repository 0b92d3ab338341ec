package validate

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Deletions learns who deletes grants.
type Deletions interface {
	// Mark marks a grant with the user whose request is about to delete it, if it can.
	Mark(ctx context.Context, grant *quotav1alpha1.ResourceGrant, user string)
}

// grantDeletion warns of the deletion of a grant, and lets the journal know of it.
func (w *Webhooks) grantDeletion(ctx context.Context, c change[quotav1alpha1.ResourceGrant]) result {
	if c.byBursar || garbageCollectors[c.username] || c.old.DeletionTimestamp != nil {
		return result{} // no person reads the warning
	}
	if w.Deletions != nil && !c.isDryRun && !c.isVersioned {
		w.Deletions.Mark(ctx, c.old, c.username)
	}
	return result{warnings: w.Advice.Grant(ctx, c.user, c.old, nil)}
}

// isVersioned reports whether a delete is only for one version of the object.
func isVersioned(request *admissionv1.AdmissionRequest) bool {
	var options metav1.DeleteOptions
	isRead := json.Unmarshal(request.Options.Raw, &options) == nil
	return isRead && options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
}
