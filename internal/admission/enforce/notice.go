package enforce

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/claims/message"
)

// notice is a denial without enforcement: either the policy's mode does not enforce, or the request did not cause the
// problem.
type notice struct {
	policy  *catalog.Policy
	message string
	// err is set if the policy is not applicable to the object.
	err error
	// lack is the consumer's lack of quota. It replaces the message.
	lack *lack
}

// notices are the notices of one review.
type notices []notice

func (n *notices) add(p *catalog.Policy, message string) {
	*n = append(*n, notice{policy: p, message: message})
}

// fail adds a notice of a policy that is not applicable to the object.
func (n *notices) fail(p *catalog.Policy, err error) {
	*n = append(*n, notice{policy: p, message: notApplicable(p.Name, err), err: err})
}

func (n *notices) lack(p *catalog.Policy, l lack) { *n = append(*n, notice{policy: p, lack: &l}) }

// notApplicable returns the message for an object to which a policy is not applicable.
func notApplicable(policy string, err error) string {
	if full := (*message.FullError)(nil); errors.As(err, &full) {
		return full.Error()
	}
	return fmt.Sprintf("ClaimCreationPolicy %s cannot be applied to this object: %v; correct the object, or ask an administrator to correct the policy", policy, err)
}

// allowWithNotices admits the object and delivers the notices. Notices of policies in the modes Warn and Enforce go
// to the user of the request, notices of the mode Audit to administrators. In a dry run only the user receives
// notices.
func (h *Handler) allowWithNotices(ctx context.Context, request *admissionv1.AdmissionRequest, object evaluator.Object, notices notices) *admissionv1.AdmissionResponse {
	response := review.Allowed()
	for _, n := range notices {
		h.failed(request, n.policy, object, n.err, false)
		switch n.policy.Mode {
		case quotav1alpha1.EnforcementModeWarn:
			response.Warnings = append(response.Warnings, h.textForUser(ctx, request, n)+" This is not enforced yet.")
		case quotav1alpha1.EnforcementModeEnforce:
			response.Warnings = append(response.Warnings, h.textForUser(ctx, request, n))
			continue
		}
		if review.IsDryRun(request) {
			continue
		}
		h.metrics.notEnforced.WithLabelValues(n.policy.Name, string(n.policy.Mode)).Inc()
		if n.policy.Mode == quotav1alpha1.EnforcementModeAudit && h.Events != nil {
			h.Events.Eventf(n.policy.Reference(), object.Reference(), corev1.EventTypeWarning, quotav1alpha1.EventNotEnforced, "Audit",
				"%s of %s by %s is allowed: %s", request.Operation, object, request.UserInfo.Username, h.textForNamespace(object.Name.Namespace, n))
		}
	}
	return response
}

// textForNamespace returns the text of a notice for an event in a namespace. Its readers may not see the quota of other
// consumers.
func (h *Handler) textForNamespace(namespace string, n notice) string {
	isTheirs := n.lack != nil && h.Catalog.ConsumerNamespaces != nil && h.Catalog.ConsumerNamespace(n.lack.consumer) == namespace
	if n.lack == nil || isTheirs || namespace == "" {
		return h.fullText(n)
	}
	return message.Of(n.lack.consumer, n.lack.shortages).Hidden(h.Catalog)
}

// textForUser returns the text of a notice for the user of the request.
func (h *Handler) textForUser(ctx context.Context, request *admissionv1.AdmissionRequest, n notice) string {
	if n.lack == nil || h.maySee(ctx, request, n.lack.consumer) {
		return h.fullText(n)
	}
	return message.Of(n.lack.consumer, n.lack.shortages).Hidden(h.Catalog)
}

// fullText returns the text of a notice for readers of the quota.
func (h *Handler) fullText(n notice) string {
	if n.lack == nil {
		return n.message
	}
	return message.Exceeded(h.Catalog, n.lack.consumer, n.lack.shortages)
}
