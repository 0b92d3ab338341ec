package restore

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// restoreRequests restores requests with their status, and the decisions on them, as Bursar. Otherwise the webhooks
// would replace the names of the requesters and deciders by the caller's.
func (r *restorer) restoreRequests(ctx context.Context) error {
	kind, isServed := r.kinds[requests]
	if !isServed {
		return nil
	}
	if err := r.each(kind, func(object *unstructured.Unstructured) error { return r.restoreRequest(ctx, kind, object) }); err != nil {
		return err
	}
	kind = r.kinds[decisions]
	return r.each(kind, func(object *unstructured.Unstructured) error { return r.restoreDecision(ctx, kind, object) })
}

func (r *restorer) restoreRequest(ctx context.Context, kind quotakinds.Kind, object *unstructured.Unstructured) error {
	if object.GetDeletionTimestamp() != nil {
		r.report.leaveOut(kind, wasDeleted)
		return nil
	}
	resource := r.bursar.Resource(kind.GroupVersionResource).Namespace(object.GetNamespace())
	existing, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && r.DryRun:
		r.report.count(kind, restored)
		return nil
	case apierrors.IsNotFound(err):
		if existing, err = resource.Create(ctx, quotakinds.Portable(object), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("restore %s %s: %w", kind.Kind, quotakinds.Name(object), err)
		}
		r.report.count(kind, restored)
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind.Kind, quotakinds.Name(object), err)
	default:
		r.report.count(kind, present)
	}
	r.requestUIDs[string(object.GetUID())] = string(existing.GetUID())
	status, hasStatus := object.Object["status"].(map[string]any)
	if !hasStatus || r.DryRun {
		return nil
	}
	status["observedGeneration"] = existing.GetGeneration()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil || isFinal(current) {
			return err
		}
		current.Object["status"] = status
		_, err = resource.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("restore the status of %s %s: %w", kind.Kind, quotakinds.Name(object), err)
	}
	return nil
}

// isFinal reports whether a request has its final decision.
func isFinal(request *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions") //nolint:errcheck // the schema has a list there
	for _, each := range conditions {
		condition, isCondition := each.(map[string]any)
		if isCondition && condition["type"] == "Approved" && condition["status"] != string(metav1.ConditionUnknown) {
			return true
		}
	}
	return false
}

// requestUID returns the UID here of a request of the backup, or the old one if the backup does not have the request.
func (r *restorer) requestUID(old string) string {
	if uid := r.requestUIDs[old]; uid != "" {
		return uid
	}
	return old
}

func (r *restorer) restoreDecision(ctx context.Context, kind quotakinds.Kind, object *unstructured.Unstructured) error {
	old, _, _ := unstructured.NestedString(object.Object, "spec", "requestRef", "uid") //nolint:errcheck // the schema has a text there
	uid := r.requestUIDs[old]
	if uid == "" || object.GetDeletionTimestamp() != nil {
		if !r.DryRun {
			r.report.leaveOut(kind, "no request of that name and UID exists")
		}
		return nil
	}
	decision := quotakinds.Portable(object)
	if err := unstructured.SetNestedField(decision.Object, uid, "spec", "requestRef", "uid"); err != nil {
		return fmt.Errorf("restore %s %s: %w", kind.Kind, quotakinds.Name(object), err)
	}
	owners := object.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = types.UID(uid)
	}
	decision.SetOwnerReferences(owners)
	_, err := r.bursar.Resource(kind.GroupVersionResource).Namespace(object.GetNamespace()).Create(ctx, decision, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		r.report.count(kind, present)
	case err != nil:
		return fmt.Errorf("restore %s %s: %w", kind.Kind, quotakinds.Name(object), err)
	default:
		r.report.count(kind, restored)
	}
	return nil
}
