// Command owning-service makes a directory for each Bucket, once its Project has quota for it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
)

// service makes directories below a root. They stand for anything outside Kubernetes.
type service struct {
	client.Client
	quota *claims.Client
	root  string
}

// Reconcile brings the directory of a Bucket in line. It is called when the Bucket or its claim has changed.
func (s *service) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	bucket := &Bucket{}
	if err := s.Get(ctx, request.NamespacedName, bucket); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	directory := filepath.Join(s.root, bucket.Namespace, bucket.Name)
	if !bucket.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, s.remove(ctx, bucket, directory)
	}
	consumer, err := s.payer(ctx, bucket.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	size := claims.Amount("hosting.example.com/bucket-storage", bucket.Spec.Size.Value())
	decision, err := s.quota.Ensure(ctx, claims.For(bucket, consumer, size))
	if decision.IsGranted() && controllerutil.AddFinalizer(bucket, finalizer) {
		return ctrl.Result{}, s.Update(ctx, bucket) // first, so that no directory outlives its Bucket
	}
	decision.Set(&bucket.Status.Conditions, bucket.Generation, "Ready")
	if err == nil && decision.IsGranted() {
		if err = os.MkdirAll(directory, 0o750); err == nil {
			apimeta.SetStatusCondition(&bucket.Status.Conditions, metav1.Condition{
				Type: "Ready", Status: metav1.ConditionTrue, Reason: "Made", ObservedGeneration: bucket.Generation,
			})
		}
	}
	return ctrl.Result{}, errors.Join(err, s.Status().Update(ctx, bucket))
}

// remove deletes the directory of a deleted Bucket, and then lets the Bucket go. Bursar then releases its quota.
func (s *service) remove(ctx context.Context, bucket *Bucket, directory string) error {
	if err := os.RemoveAll(directory); err != nil || !controllerutil.RemoveFinalizer(bucket, finalizer) {
		return err
	}
	return client.IgnoreNotFound(s.Update(ctx, bucket))
}

// payer returns the Project in the label of a namespace. A Bucket must not name it, because tenants write Buckets.
func (s *service) payer(ctx context.Context, namespace string) (quotav1alpha1.ConsumerRef, error) {
	object := &corev1.Namespace{}
	if err := s.Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return quotav1alpha1.ConsumerRef{}, fmt.Errorf("find the Project of namespace %s: %w", namespace, err)
	}
	project := object.Labels["hosting.example.com/project"]
	if project == "" {
		return quotav1alpha1.ConsumerRef{}, fmt.Errorf("nobody pays in namespace %s: it has no label hosting.example.com/project", namespace)
	}
	return quotav1alpha1.ConsumerRef{APIGroup: "hosting.example.com", Kind: "Project", Name: project}, nil
}
