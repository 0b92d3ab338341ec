package ledgerstore

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Observer informs the store of every stored version of a ledger. So the store learns of the reservations and releases
// of other processes, and finishes them after the death of such a process. [Store.Preload] handles ledgers unchanged
// since the start.
type Observer struct {
	Metadata metadata.Interface
	// Live reads ledgers from the API server.
	Live  client.Reader
	Store *Store
	Log   logr.Logger
}

// Run watches the ledgers until ctx ends.
func (o *Observer) Run(ctx context.Context) error {
	resource := quotav1alpha1.GroupVersion.WithResource("consumerledgers")
	informer := metadatainformer.NewFilteredMetadataInformer(o.Metadata, resource, "", 0, nil, nil).Informer()
	if err := informer.SetTransform(nameAndVersion); err != nil {
		return fmt.Errorf("follow the ledgers: %w", err)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			if !isInInitialList || !o.wasListed(object) {
				o.observe(ctx, object)
			}
		},
		UpdateFunc: func(_, object any) { o.observe(ctx, object) },
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				o.Store.ObserveDeletion(key) // the name: ledgers have no namespace
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow the ledgers: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// nameAndVersion strips everything else from a ledger, except the annotations for replicas.
func nameAndVersion(object any) (any, error) {
	ledger, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	stripped := metav1.ObjectMeta{Name: ledger.Name, UID: ledger.UID, ResourceVersion: ledger.ResourceVersion}
	for _, key := range []string{quotav1alpha1.AnnotationUnfinished, quotav1alpha1.AnnotationObserved} {
		if value, ok := ledger.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&stripped, key, value)
		}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: stripped}, nil
}

// wasListed reports whether a ledger is unchanged since the start.
func (o *Observer) wasListed(object any) bool {
	ledger, ok := object.(*metav1.PartialObjectMetadata)
	return ok && o.Store.WasListed(ledger.Name, Version(ledger.ResourceVersion))
}

// observeRetryDelay is the delay before the next attempt to read the ledger of an unknown consumer.
const observeRetryDelay = 5 * time.Second

func (o *Observer) observe(ctx context.Context, object any) {
	ledger, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || o.Store.Observe(noticeOf(ledger)) {
		return
	}
	// The first write to this ledger seen by this process comes from another one.
	full := &quotav1alpha1.ConsumerLedger{}
	err := o.Live.Get(ctx, client.ObjectKey{Name: ledger.Name}, full)
	switch {
	case err == nil:
		o.Store.ObserveOf(full.Spec.ConsumerRef, noticeOf(full))
	case ctx.Err() == nil && !apierrors.IsNotFound(err):
		o.Log.Error(err, "cannot read the consumer of a ledger from another process, will try again", "ledger", ledger.Name)
		time.AfterFunc(observeRetryDelay, func() {
			if ctx.Err() == nil {
				o.observe(ctx, object)
			}
		})
	}
}

func noticeOf(ledger metav1.Object) Notice {
	return Notice{
		Name: ledger.GetName(), Version: Version(ledger.GetResourceVersion()),
		Unfinished: Unfinished(ledger.GetAnnotations()[quotav1alpha1.AnnotationUnfinished]),
		Observed:   Observed(ledger.GetAnnotations()[quotav1alpha1.AnnotationObserved]),
	}
}
