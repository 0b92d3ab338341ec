package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// completedAtOnce is how many objects the API server completes at a time.
const completedAtOnce = 16

// object is an object of the files.
type object struct {
	*unstructured.Unstructured
	operation quotav1alpha1.ReviewedOperation
	// mapping is the resource of its kind, or nil if the API server does not serve it.
	mapping *apimeta.RESTMapping
	// rejection is why the API server would not store the object.
	rejection error
}

func (o *object) isRejected() bool { return o.rejection != nil }

// read returns the objects in files.
func (o *Options) read(files resource.FilenameOptions, operation quotav1alpha1.ReviewedOperation) ([]*object, error) {
	if len(files.Filenames) == 0 && files.Kustomize == "" {
		return nil, nil
	}
	infos, err := resource.NewLocalBuilder().Unstructured().FilenameParam(false, &files).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	objects := make([]*object, 0, len(infos))
	for _, info := range infos {
		content, isObject := info.Object.(*unstructured.Unstructured)
		if !isObject {
			return nil, fmt.Errorf("%s: %T is not an object", info.Source, info.Object)
		}
		planned, err := o.place(content, operation)
		if err != nil {
			return nil, err
		}
		objects = append(objects, planned)
	}
	return objects, nil
}

// place finds the resource of an object, and sets its namespace if it names none.
func (o *Options) place(content *unstructured.Unstructured, operation quotav1alpha1.ReviewedOperation) (*object, error) {
	kind := content.GroupVersionKind()
	mapping, err := o.API.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case apimeta.IsNoMatchError(err):
	case err != nil:
		return nil, fmt.Errorf("look up kind %s: %w", kind.Kind, err)
	case mapping.Scope.Name() == apimeta.RESTScopeNameRoot:
		content.SetNamespace("")
	case content.GetNamespace() == "":
		content.SetNamespace(o.Namespace)
	}
	return &object{Unstructured: content, operation: operation, mapping: mapping}, nil
}

// complete replaces objects by those the API server would store: with defaults, and with the changes of other webhooks.
// It asks by dry runs, in which Bursar does not decide. An object in a namespace that does not exist yet stays as it
// is.
func (o *Options) complete(ctx context.Context, objects []*object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(completedAtOnce)
	for _, planned := range objects {
		if planned.mapping == nil || planned.operation == quotav1alpha1.ReviewedOperationDelete {
			continue
		}
		group.Go(func() error {
			stored, err := o.dryRun(ctx, planned)
			status := apierrors.APIStatus(nil)
			switch {
			case err == nil:
				planned.Unstructured = stored
			case isInNewNamespace(err, planned):
			case errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err):
				planned.rejection = err
			default:
				return fmt.Errorf("ask the API server for the stored form of %s %s: %w", planned.GetKind(), planned.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// reviewable returns the part of an object that policies may read. The rest would only make the review larger. The
// content of a Secret must not get into logs of a review.
func reviewable(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	return &unstructured.Unstructured{Object: policy.Visible(object.Object)}
}

// dryRun applies an object, or creates it if it has no name, in a dry run.
func (o *Options) dryRun(ctx context.Context, planned *object) (*unstructured.Unstructured, error) {
	api := o.Dynamic.Resource(planned.mapping.Resource).Namespace(planned.GetNamespace())
	dryRun := []string{metav1.DryRunAll}
	if planned.GetName() == "" {
		return api.Create(ctx, planned.Unstructured, metav1.CreateOptions{DryRun: dryRun, FieldManager: quotav1alpha1.FieldManagerPlan})
	}
	content, err := json.Marshal(planned.Unstructured)
	if err != nil {
		return nil, fmt.Errorf("encode the object: %w", err)
	}
	return api.Patch(ctx, planned.GetName(), types.ApplyPatchType, content,
		metav1.PatchOptions{DryRun: dryRun, FieldManager: quotav1alpha1.FieldManagerPlan, Force: new(true)})
}

// isInNewNamespace reports whether an object is missing because its namespace does not exist.
func isInNewNamespace(err error, planned *object) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == planned.GetNamespace()
}
