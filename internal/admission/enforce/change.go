package enforce

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/bursar/bursar/internal/admission/review"
	"github.com/bursar/bursar/internal/claims/evaluator"
	"github.com/bursar/bursar/internal/policy"
)

// subresourceScale is the subresource for the number of an object's replicas.
const subresourceScale = "scale"

// Kinds describes the served kinds. An error means that the answer is unknown.
type Kinds interface {
	KindOf(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, bool, error)
	ReplicasPath(ctx context.Context, resource schema.GroupVersionResource) ([]string, error)
}

// change is an update of an object.
type change struct {
	evaluator.Object
	old, new map[string]any
	// base is the version of the object before the update. Once the object has another version, the API server has
	// either made the update or can no longer make it.
	base  string
	actor string // the user behind the request
	// input is what policies see of the object after the update.
	input policy.Input
}

// changeIn decodes the change in a request. It returns nil if the object no longer exists.
func (h *Handler) changeIn(ctx context.Context, request *admissionv1.AdmissionRequest) (*change, *admissionv1.AdmissionResponse) {
	before, err := contentOf(request.OldObject)
	if err != nil {
		return nil, unreadable(err)
	}
	after, err := contentOf(request.Object)
	if err != nil {
		return nil, unreadable(err)
	}
	kind := schema.GroupVersionKind(request.Kind)
	if request.SubResource == subresourceScale {
		if kind, before, after, err = h.scaled(ctx, request, after); err != nil {
			return nil, tryAgain(err)
		}
	}
	if before == nil {
		return nil, nil // the object no longer exists; the API server reports that itself
	}
	object := unstructured.Unstructured{Object: before}
	return &change{
		Object: evaluator.ObjectOf(kind, &object),
		old:    before, new: after, base: object.GetResourceVersion(),
		actor: request.UserInfo.Username,
	}, nil
}

func unreadable(err error) *admissionv1.AdmissionResponse {
	return review.Invalid("the object cannot be read: %v", err)
}

func contentOf(raw runtime.RawExtension) (content map[string]any, err error) {
	err = utiljson.Unmarshal(raw.Raw, &content)
	return content, err
}

// scaled returns the object behind a request on the scale subresource, before and after the request. The request does
// not contain the object, so scaled reads it. If the object changes before the API server carries out the request,
// the API server repeats the review.
func (h *Handler) scaled(ctx context.Context, request *admissionv1.AdmissionRequest, scale map[string]any) (kind schema.GroupVersionKind, before, after map[string]any, err error) {
	resource := schema.GroupVersionResource(request.Resource)
	kind, served, err := h.Kinds.KindOf(ctx, resource)
	if err == nil && !served {
		err = fmt.Errorf("%s is not served", resource)
	}
	if err != nil {
		return kind, nil, nil, err
	}

	replicas, found, err := unstructured.NestedInt64(scale, "spec", "replicas")
	if err != nil {
		return kind, nil, nil, fmt.Errorf("read the number of replicas: %w", err)
	}
	path, err := h.Kinds.ReplicasPath(ctx, resource)
	if err != nil {
		return kind, nil, nil, err
	}

	name := types.NamespacedName{Namespace: request.Namespace, Name: request.Name}
	object, err := h.Live.Resource(resource).Namespace(request.Namespace).Get(ctx, request.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return kind, nil, nil, nil
	}
	if err != nil {
		return kind, nil, nil, fmt.Errorf("read %s, the object to scale: %w", evaluator.Object{Kind: kind, Name: name}, err)
	}

	before, after = object.Object, object.DeepCopy().Object
	if !found {
		replicas = 0
	}
	return kind, before, after, unstructured.SetNestedField(after, replicas, path...)
}

// subjectOf returns the created or changed object of a request, and its version before a change. It needs little
// beyond the request, because the dependencies of a decision may be missing. With an error it returns all known
// fields.
func (h *Handler) subjectOf(request *admissionv1.AdmissionRequest) (object evaluator.Object, version string, err error) {
	content := request.OldObject.Raw
	if request.Operation == admissionv1.Create {
		content = request.Object.Raw
	}
	meta, kind := metav1.PartialObjectMetadata{}, schema.GroupVersionKind(request.Kind)
	err = json.Unmarshal(content, &meta)
	if err == nil && request.SubResource == subresourceScale { // the scale object has the UID and version of the object it scales
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
		defer cancel()
		kind, _, err = h.Kinds.KindOf(ctx, schema.GroupVersionResource(request.Resource))
	}
	object = evaluator.ObjectOf(kind, &meta)
	object.Name.Name = cmp.Or(object.Name.Name, request.Name)
	return object, meta.ResourceVersion, err
}
