// Package quotavalidation validates the spec of a ResourceQuota by a dry run on the API server. The API server knows
// the resources with limits, the valid combinations of scopes and resources, and the valid amounts. No library has
// these rules. Like all of kube it knows no quota, and any internal package may import it.
package quotavalidation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// namePrefix begins the name of each dry-run ResourceQuota. None is ever stored.
const namePrefix = "bursar-check-"

// Creator creates ResourceQuotas in one existing namespace. client-go's typed clients implement it.
type Creator interface {
	Create(ctx context.Context, quota *corev1.ResourceQuota, options metav1.CreateOptions) (*corev1.ResourceQuota, error)
}

// Checker checks specs by dry runs. It is safe for concurrent use if its Creator is.
type Checker struct {
	// Quotas makes the dry runs, in a namespace where no policy rejects ResourceQuotas.
	Quotas Creator
}

// Check returns all errors of the API server for the spec of a ResourceQuota. Their paths begin with path, the location
// of the spec in the checked object. The dry run has the labels and annotations of like, because policies of the
// cluster may depend on them. An error means that the check failed, and wraps the API server's error: Forbidden for a
// rejection by a policy.
func (c Checker) Check(ctx context.Context, path *field.Path, like *corev1.ResourceQuota) (field.ErrorList, error) {
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix, Labels: like.Labels, Annotations: like.Annotations}, Spec: like.Spec,
	}
	_, err := c.Quotas.Create(ctx, quota, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return nil, nil
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil, fmt.Errorf("ask the API server whether a ResourceQuota may have this spec: %w", err)
	}
	var errs field.ErrorList
	for _, cause := range status.Status().Details.Causes {
		errs = append(errs, errorOf(path, cause))
	}
	if len(errs) == 0 {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
	return errs, nil
}

// errorOf returns a cause as an error of the field with the spec's field below path.
func errorOf(path *field.Path, cause metav1.StatusCause) *field.Error {
	at := path.String()
	if below, isInSpec := strings.CutPrefix(cause.Field, "spec"); isInSpec {
		at += below
	}
	// The message begins with the type of the error and the value, as the new error's would.
	detail := strings.TrimPrefix(cause.Message, field.ErrorTypeInvalid.String()+": ")
	return &field.Error{Type: field.ErrorTypeInvalid, Field: at, BadValue: field.OmitValueType{}, Detail: detail}
}
