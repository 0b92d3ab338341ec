package usage

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/config"
)

// Source has the usage of all consumers. [Cached] implements it.
type Source interface {
	// Buckets lists the buckets of all consumers. They must not be changed.
	Buckets(ctx context.Context) ([]quotav1alpha1.AllowanceBucket, error)
	// Thresholds returns the thresholds at which a limit is near.
	Thresholds(ctx context.Context) (*Thresholds, error)
}

// Cached reads from a cache.
type Cached struct {
	Cache         client.Reader
	Registrations *catalog.Catalog
	// Settings has the platform's threshold, and the bounds of the consumers' own.
	Settings config.Metrics
}

// Buckets implements [Source].
func (c Cached) Buckets(ctx context.Context) ([]quotav1alpha1.AllowanceBucket, error) {
	var list quotav1alpha1.AllowanceBucketList
	err := c.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// Thresholds implements [Source].
func (c Cached) Thresholds(ctx context.Context) (*Thresholds, error) {
	var alerts quotav1alpha1.QuotaAlertList
	if err := c.Cache.List(ctx, &alerts, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var grants quotav1alpha1.ResourceGrantList
	if err := c.Cache.List(ctx, &grants, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return NewThresholds(alerts.Items, grants.Items, c.Registrations, c.Settings), nil
}
