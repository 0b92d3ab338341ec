package restore

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// checkRequests makes sure that no other request or decision of the server has the name of one in the backup. It finds
// the UIDs of the requests.
func (r *restorer) checkRequests(ctx context.Context) error {
	var others []string
	for _, resource := range []string{requests, decisions} {
		kind, isServed := r.kinds[resource]
		if !isServed {
			continue
		}
		here := map[string]*unstructured.Unstructured{}
		_, err := quotakinds.Each(ctx, r.caller, kind.GroupVersionResource, "", func(object *unstructured.Unstructured) error {
			here[quotakinds.Name(object)] = object
			return nil
		})
		if err != nil {
			return err
		}
		isSame := r.isSameDecision
		if resource == requests {
			isSame = r.isSameRequest
		}
		err = r.each(kind, func(object *unstructured.Unstructured) error {
			if object.GetDeletionTimestamp() != nil {
				return nil
			}
			same, err := isSame(here[quotakinds.Name(object)], object)
			if !same {
				others = append(others, kind.Kind+" "+quotakinds.Name(object))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the server has other objects of the same names: %s; delete them there first", some(others))
	}
	return nil
}

// isSameRequest reports whether the server has no other request of that name: none at all, the one of the backup, or
// one with the same spec, requester included. The user may have withdrawn it meanwhile. It notes the UID of the request
// here.
func (r *restorer) isSameRequest(here, object *unstructured.Unstructured) (bool, error) {
	r.requestUIDs[string(object.GetUID())] = ""
	if here == nil {
		return true, nil
	}
	r.requestUIDs[string(object.GetUID())] = string(here.GetUID())
	if here.GetUID() == object.GetUID() {
		return true, nil
	}
	before, now := &quotav1alpha1.QuotaRequest{}, &quotav1alpha1.QuotaRequest{}
	if err := decodeBoth(object, before, here, now); err != nil {
		return false, err
	}
	if !before.Spec.Withdrawn {
		now.Spec.Withdrawn, now.Spec.WithdrawnBy = false, nil
	}
	return equality.Semantic.DeepEqual(before.Spec, now.Spec), nil
}

// isSameDecision reports whether the server has no decision of that name other than the one of the backup.
func (r *restorer) isSameDecision(here, object *unstructured.Unstructured) (bool, error) {
	before, now := &quotav1alpha1.QuotaDecision{}, &quotav1alpha1.QuotaDecision{}
	if here == nil {
		return true, nil
	}
	if err := decodeBoth(object, before, here, now); err != nil {
		return false, err
	}
	uid, isRestored := r.requestUIDs[before.Spec.RequestRef.UID]
	before.Spec.RequestRef.UID = uid
	return !isRestored || equality.Semantic.DeepEqual(before.Spec, now.Spec), nil
}

func decodeBoth(object *unstructured.Unstructured, before any, here *unstructured.Unstructured, now any) error {
	if err := backup.Decode(object, before); err != nil {
		return fmt.Errorf("decode %s %s of the backup: %w", object.GetKind(), quotakinds.Name(object), err)
	}
	if err := backup.Decode(here, now); err != nil {
		return fmt.Errorf("decode %s %s: %w", here.GetKind(), quotakinds.Name(here), err)
	}
	return nil
}

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
	same, err := r.isSameRequest(existing, object) // it may be younger than the check
	if err == nil && !same {
		err = fmt.Errorf("the server has another %s %s: delete it there first", kind.Kind, quotakinds.Name(object))
	}
	isOriginal := existing.GetUID() == object.GetUID() // it has its own status, maybe a later one
	if err != nil || isOriginal || r.DryRun {
		return err
	}
	return r.restoreRequestStatus(ctx, kind, object, existing.GetGeneration())
}

func (r *restorer) restoreRequestStatus(ctx context.Context, kind quotakinds.Kind, object *unstructured.Unstructured, generation int64) error {
	status, hasStatus := object.Object["status"].(map[string]any)
	if !hasStatus {
		return nil
	}
	status["observedGeneration"] = generation
	resource := r.bursar.Resource(kind.GroupVersionResource).Namespace(object.GetNamespace())
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
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
	uid, isRestored := r.requestUIDs[old]
	if !isRestored || object.GetDeletionTimestamp() != nil {
		r.report.leaveOut(kind, "no requests of these names and UIDs exist")
		return nil
	}
	if r.DryRun {
		return r.foretell(ctx, kind, object)
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

// foretell counts an object as present or restored by whether it exists.
func (r *restorer) foretell(ctx context.Context, kind quotakinds.Kind, object *unstructured.Unstructured) error {
	_, err := r.bursar.Resource(kind.GroupVersionResource).Namespace(object.GetNamespace()).Get(ctx, object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.report.count(kind, restored)
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind.Kind, quotakinds.Name(object), err)
	default:
		r.report.count(kind, present)
	}
	return nil
}
