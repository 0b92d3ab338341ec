package resourcequota

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/allocation"
)

// The users in onBehalf delete on behalf of other users, with wider permissions. The garbage collector of a cluster
// follows owner references, and every user with write access to an object can set them.
var onBehalf = []string{
	"system:apiserver", "system:kube-controller-manager", "system:serviceaccount:kube-system:generic-garbage-collector",
}

// mayLeave reports whether a user may remove capped resources from a ResourceQuota. Bursar's own user is also the
// garbage collector of a standalone server, so it may delete the ResourceQuotas of definitions.
func (h *Handler) mayLeave(ctx context.Context, request *admissionv1.AdmissionRequest, c change, allocation string) (bool, error) {
	user := request.UserInfo.Username
	switch {
	case slices.Contains(onBehalf, user):
		return false, nil
	case user == h.Username:
		isGenerated := c.from.Labels[openmcpv1alpha1.LabelManagedBy] != "" && c.from.Labels[openmcpv1alpha1.LabelDefinition] == c.from.Name
		return request.Operation != admissionv1.Delete || isGenerated, nil
	}
	return h.Permissions.May(ctx, request.UserInfo, authorizationv1.ResourceAttributes{
		Verb: "update", Group: quotav1alpha1.GroupName, Resource: "resourcequotaallocations", Name: allocation,
	})
}

// dropped returns the resources that a ResourceQuota no longer limits after a change, under every name and in order.
func (c *change) dropped() []corev1.ResourceName {
	remaining := allocation.Limits(c.to.Spec.Hard)
	if allocation.ScopesOf(&c.from.Spec) != allocation.ScopesOf(&c.to.Spec) {
		remaining = nil
	}
	var dropped []corev1.ResourceName
	for name := range allocation.Limits(c.from.Spec.Hard) {
		if _, isKept := remaining[name]; !isKept {
			dropped = append(dropped, name)
		}
	}
	slices.Sort(dropped)
	return dropped
}

// leaving is an allocation with the capped resources that a change removes from a ResourceQuota.
type leaving struct {
	allocation string
	resources  []corev1.ResourceName
}

// checkDropped denies the removal of a capped resource from a ResourceQuota, unless the allocation permits it or the
// user may update the allocation. It returns nil if the change may pass.
func (h *Handler) checkDropped(ctx context.Context, request *admissionv1.AdmissionRequest, c change, dropped []corev1.ResourceName, namespace *metav1.PartialObjectMetadata) *admissionv1.AdmissionResponse {
	if len(dropped) == 0 || namespace.DeletionTimestamp != nil {
		return nil
	}
	var left []leaving
	scopes := allocation.ScopesOf(&c.from.Spec)
	for _, a := range h.Catalog.AllocationsFor(labels.Set(namespace.Labels)) {
		if a.Scopes != scopes || a.MayLeave {
			continue
		}
		capped := slices.DeleteFunc(slices.Clone(dropped), func(name corev1.ResourceName) bool { return !slices.Contains(a.Capped, name) })
		if len(capped) == 0 {
			continue
		}
		may, err := h.mayLeave(ctx, request, c, a.Name)
		if err != nil {
			return undecided(fmt.Errorf("find out whether the user may change ResourceQuotaAllocation %s: %w", a.Name, err))
		}
		if !may {
			left = append(left, leaving{a.Name, capped})
		}
	}
	if len(left) == 0 {
		return nil
	}
	return denyLeaving(c.from.Name, namespace.Name, left)
}

// denyLeaving returns a denial with the caps and the alternatives.
func denyLeaving(quota, namespace string, left []leaving) *admissionv1.AdmissionResponse {
	var sentences []string
	var causes []metav1.StatusCause
	for _, l := range left {
		sentences = append(sentences, fmt.Sprintf("ResourceQuotaAllocation %s caps %s, and without ResourceQuota %s it may be unlimited in namespace %s",
			l.allocation, join(l.resources), quota, namespace))
		for _, name := range l.resources {
			causes = append(causes, metav1.StatusCause{
				Type: quotav1alpha1.CauseAllocationLeft, Field: fmt.Sprintf("spec.hard[%s]", name), Message: sentences[len(sentences)-1],
			})
		}
	}
	response := review.Denied(http.StatusForbidden, metav1.StatusReasonForbidden,
		"%s. Keep the resource and lower its amount instead, or ask an administrator of the allocation to permit it with spec.mayLeave.", strings.Join(sentences, "; "))
	response.Result.Details = &metav1.StatusDetails{Kind: string(corev1.ResourceQuotas), Name: quota, Causes: causes}
	return response
}

func join(names []corev1.ResourceName) string {
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, string(name))
	}
	return strings.Join(parts, ", ")
}
