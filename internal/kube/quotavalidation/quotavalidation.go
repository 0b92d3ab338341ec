// Package quotavalidation finds out what is wrong with the spec of a ResourceQuota by asking the API server,
// which knows best: which resources can be limited, which scopes go together and with which resources,
// and which amounts there are. The rules themselves are in no library that could be asked instead.
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

// namePrefix begins the name of each ResourceQuota that is asked about. None is ever stored.
const namePrefix = "bursar-check-"

// Creator creates ResourceQuotas in one namespace, which has to exist. The clients of client-go are such.
type Creator interface {
	Create(ctx context.Context, quota *corev1.ResourceQuota, options metav1.CreateOptions) (*corev1.ResourceQuota, error)
}

// Checker checks specs by dry runs. It is safe for concurrent use if its Creator is.
type Checker struct {
	// Quotas makes the dry runs, in a namespace in which no policy stands against a ResourceQuota.
	Quotas Creator
}

// Check tells everything that the API server has against the spec of a ResourceQuota, with the paths of the fields
// below path, which is where the spec is in the object that is checked. Policies of the cluster may go by labels and
// annotations, so these are asked about too. An error means that it could not be found out, and wraps what the
// API server said: for one that is refused by a policy, that it is forbidden.
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

// errorOf is a cause as an error about the field that has the spec's field below path.
func errorOf(path *field.Path, cause metav1.StatusCause) *field.Error {
	at := path.String()
	if below, isInSpec := strings.CutPrefix(cause.Field, "spec"); isInSpec {
		at += below
	}
	// The message begins with the type of the error and the value, as that of the new error would.
	detail := strings.TrimPrefix(cause.Message, field.ErrorTypeInvalid.String()+": ")
	return &field.Error{Type: field.ErrorTypeInvalid, Field: at, BadValue: field.OmitValueType{}, Detail: detail}
}
