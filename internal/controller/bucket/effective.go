package bucket

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// refsBytesMax bounds the size of an effective grant's references to buckets, because dimensions may be long and etcd
// stores objects of up to 1.5 MiB. Further buckets exist without a reference; their owner leads to them.
const refsBytesMax = 512 << 10

// display is how a registration shows a quota. The zero value shows nothing.
type display struct {
	name, unit         string
	description, owner string
	factor             int64
}

// displayOf returns the display of a registration, or the zero value without a registration.
func displayOf(r *catalog.Registration) display {
	if r == nil {
		return display{}
	}
	return display{name: r.DisplayName, unit: r.DisplayUnit, description: r.Description, owner: r.Owner, factor: r.Factor}
}

// effectiveGrant returns the effective grant of a subject, or nil if there is none. With create set, it creates one.
func (c *Controller) effectiveGrant(ctx context.Context, s subject, create bool) (*quotav1alpha1.EffectiveResourceGrant, error) {
	desired := s.newEffectiveGrant()
	effective := &quotav1alpha1.EffectiveResourceGrant{}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(desired), effective)
	switch {
	case apierrors.IsNotFound(err) && create:
		effective = desired
		err = c.Client.Create(ctx, effective)
	case apierrors.IsNotFound(err):
		return nil, c.checkGone(ctx, desired)
	}
	if err != nil {
		return nil, fmt.Errorf("effective grant %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	if effective.Spec != desired.Spec {
		return nil, fmt.Errorf("effective grant %s/%s is of another consumer or resource type", desired.Namespace, desired.Name)
	}
	return effective, nil
}

// updateEffectiveGrant writes the status of an effective grant if it differs.
func (c *Controller) updateEffectiveGrant(ctx context.Context, effective *quotav1alpha1.EffectiveResourceGrant, status quotav1alpha1.EffectiveResourceGrantStatus) error {
	status.ObservedGeneration = effective.Generation
	if equality.Semantic.DeepEqual(effective.Status, status) {
		return nil
	}
	updated := effective.DeepCopy()
	updated.Status = status
	if err := c.Client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("status of effective grant %s/%s: %w", effective.Namespace, effective.Name, err)
	}
	return nil
}

// effectiveStatus returns the status of an effective grant. Without a registration there is no unit for the display.
func effectiveStatus(account ledger.Account, held ledger.Amount, contributions []contribution, buckets []quotav1alpha1.AllowanceBucketRef, r *catalog.Registration) quotav1alpha1.EffectiveResourceGrantStatus {
	allocated := account.Used + account.Reserved - held
	status := quotav1alpha1.EffectiveResourceGrantStatus{
		TotalLimit:          int64(account.Limit),
		TotalAllocated:      int64(allocated),
		Available:           int64(account.Available),
		Held:                int64(held),
		GrantRefs:           grantRefs(contributions, everyContribution),
		AllowanceBucketRefs: buckets,
	}
	if r != nil && r.Type.IsCountedOnly() {
		state := quotav1alpha1.FeatureStateOf(status.TotalLimit)
		status.Feature, status.Available = state, status.TotalLimit
		status.Display = &quotav1alpha1.DisplayedQuota{
			Name: r.DisplayName, Description: r.Description, Owner: r.Owner, TotalLimit: string(state), TotalAllocated: message.Amount(allocated, r), Available: string(state),
		}
		return status
	}
	if r != nil {
		status.Display = &quotav1alpha1.DisplayedQuota{
			Name:           r.DisplayName,
			Description:    r.Description,
			Owner:          r.Owner,
			TotalLimit:     message.Amount(account.Limit, r),
			TotalAllocated: message.Amount(allocated, r),
			Available:      message.Amount(account.Available, r),
			Percent:        message.Percent(allocated, account.Limit),
		}
		if held > 0 {
			status.Display.Held = message.Amount(held, r)
		}
	}
	return status
}

// setFeature completes the status of a bucket if its resource type is a feature.
func setFeature(status *quotav1alpha1.AllowanceBucketStatus, r *catalog.Registration) {
	if r != nil && r.Type.IsCountedOnly() {
		status.Feature, status.Available = quotav1alpha1.FeatureStateOf(status.Limit), status.Limit
	}
}

// displayedBucket returns the display amounts of a bucket, or nil without a registration.
func displayedBucket(status *quotav1alpha1.AllowanceBucketStatus, d ledger.Dimensions, r *catalog.Registration) *quotav1alpha1.DisplayedBucket {
	if r == nil {
		return nil
	}
	allocated, limit := ledger.Amount(status.Allocated), ledger.Amount(status.Limit)
	if status.Feature != "" {
		used := string(status.Feature)
		if allocated > 0 {
			used += " (" + message.Amount(allocated, r) + ")"
		}
		return &quotav1alpha1.DisplayedBucket{Dimensions: message.Dimensions(d.Map()), Used: used}
	}
	return &quotav1alpha1.DisplayedBucket{
		Dimensions: message.Dimensions(d.Map()),
		Percent:    message.Percent(allocated, limit),
		Used:       message.Used(allocated, limit, r),
	}
}

// refTo returns a reference to a bucket, with its part of the allocated amount.
func refTo(bucket *quotav1alpha1.AllowanceBucket, allocated int64) quotav1alpha1.AllowanceBucketRef {
	return quotav1alpha1.AllowanceBucketRef{
		Name: bucket.Name, Dimensions: bucket.Spec.Dimensions, Allocated: allocated, ObservedGeneration: bucket.Generation,
	}
}

// limitRefs drops the references without room in an effective grant.
func limitRefs(refs []quotav1alpha1.AllowanceBucketRef) []quotav1alpha1.AllowanceBucketRef {
	const fieldsBytes = 100 // the size of field names and numbers
	total := 0
	for i, ref := range refs {
		total += fieldsBytes + len(ref.Name)
		for key, value := range ref.Dimensions {
			total += len(key) + len(value)
		}
		if total > refsBytesMax {
			return refs[:i]
		}
	}
	return refs
}
