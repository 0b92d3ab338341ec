package service

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The kind of the consumers of Instances.
const (
	projectGroup = "resourcemanager.miloapis.com"
	projectKind  = "Project"
)

// LabelProject on a namespace names the Project to charge for the Instances in it. A user with permission to label
// namespaces can choose the Project.
const LabelProject = projectGroup + "/project-name"

// projectOf returns the Project to charge for a namespace, or nil without one.
func projectOf(ctx context.Context, cached client.Reader, namespace string) (*quotav1alpha1.ConsumerRef, error) {
	object := &corev1.Namespace{}
	if err := cached.Get(ctx, types.NamespacedName{Name: namespace}, object); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	name := object.Labels[LabelProject]
	if name == "" {
		return nil, nil
	}
	return &quotav1alpha1.ConsumerRef{APIGroup: projectGroup, Kind: projectKind, Name: name}, nil
}

// anyProject returns the metadata of a Project, for reading into it.
func anyProject() *metav1.PartialObjectMetadata {
	project := &metav1.PartialObjectMetadata{}
	project.SetGroupVersionKind(schema.GroupVersionKind{Group: projectGroup, Version: "v1alpha1", Kind: projectKind})
	return project
}

// projectExists reports whether a Project exists. A missing Project has no quota. An administrator has to correct this,
// not the user with the Instance.
func projectExists(ctx context.Context, cached client.Reader, name string) (bool, error) {
	err := cached.Get(ctx, types.NamespacedName{Name: name}, anyProject())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Project %s: %w", name, err)
	}
	return true, nil
}
