// Package departed removes the ledgers and effective grants of consumers that no longer exist or never did.
//
// A consumer is removable once its object does not exist, no grant or claim names it, and its ledger is empty: no
// limit, no usage and no reservation. The controller inspects such consumers regularly, and removes
// only ledgers and effective grants unchanged in two inspections in a row. So everything in progress at the first
// inspection has arrived at the second: the API server ends requests after a minute, and replicas have seen the
// deletion of the last claim.
//
// The deletion of a ledger requires the version of the inspection. A decision before it changes the version, and the
// ledger stays. A decision after it finds no ledger, and makes one of what exists. The bucket
// controller then creates the effective grants again.
//
// Only the operator and tests import it.
package departed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
	"github.com/bursar/bursar/internal/naming"
)

const (
	defaultInterval = time.Minute
	// lookupsPerSecond bounds the lookups of consumers' objects, after a burst: many consumers may exist without quota.
	lookupsPerSecond = 20
	lookupsBurst     = 50
	// consumerTimeout bounds all requests about one consumer.
	consumerTimeout = 30 * time.Second
)

// Existence is whether the object of a consumer exists.
type Existence int

// Unknown: the API server does not serve the kind, or Bursar may not read it.
const (
	Unknown Existence = iota
	Exists
	NotFound
)

// Consumers are the consumers with a possible ledger or effective grants.
type Consumers interface {
	Consumers() []quotav1alpha1.ConsumerRef
	// Forget drops a consumer without either.
	Forget(consumer quotav1alpha1.ConsumerRef)
}

// Claims is the claim cache.
type Claims interface {
	WaitForSync(ctx context.Context) error
	ForConsumer(consumer quotav1alpha1.ConsumerRef, keep func(*claimcache.Claim) bool) []*claimcache.Claim
}

// Objects finds the objects of consumers. [Finder] implements it.
type Objects interface {
	// Find looks for the object of a consumer.
	Find(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (Existence, error)
}

// Controller removes the remains of departed consumers. Set its fields once; then call Run.
type Controller struct {
	// Client reads from a cache, and Live from the API server.
	Client    client.Client
	Live      client.Reader
	Consumers Consumers
	Claims    Claims
	Objects   Objects
	// Interval is the time between two inspections. Default: a minute.
	Interval time.Duration
	Log      logr.Logger
}

// trace identifies the remains of a consumer.
type trace struct {
	// uid and version are those of its ledger, or empty if there is none.
	uid, version string
	// effectiveUIDs are the UIDs of its effective grants.
	effectiveUIDs string
}

// Run inspects consumers at every interval until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.Claims.WaitForSync(ctx); err != nil {
		return nil // ctx has ended
	}
	interval := c.Interval
	if interval <= 0 {
		interval = defaultInterval
	}
	pace := flowcontrol.NewTokenBucketRateLimiter(lookupsPerSecond, lookupsBurst)
	traces := map[quotav1alpha1.ConsumerRef]trace{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
		var err error
		if traces, err = c.inspectAll(ctx, pace, traces); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "cannot remove the data of deleted consumers, will try again", "in", interval)
		}
	}
}

// inspectAll removes the remains of consumers with the same trace as in the last inspection, and returns the traces of
// the others.
func (c *Controller) inspectAll(ctx context.Context, pace flowcontrol.RateLimiter, before map[quotav1alpha1.ConsumerRef]trace) (map[quotav1alpha1.ConsumerRef]trace, error) {
	granted, err := c.granted(ctx)
	if err != nil {
		return before, err
	}
	effective, err := c.effective(ctx)
	if err != nil {
		return before, err
	}
	found := map[quotav1alpha1.ConsumerRef]trace{}
	var errs []error
	for _, consumer := range c.Consumers.Consumers() {
		if granted[consumer] || len(c.Claims.ForConsumer(consumer, func(*claimcache.Claim) bool { return true })) > 0 {
			continue
		}
		if err := pace.Wait(ctx); err != nil {
			return found, nil // ctx has ended
		}
		last, wasFound := before[consumer]
		left, isLeft, err := c.inspect(ctx, consumer, effective[consumer], last, wasFound)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s %s: %w", consumer.Kind, consumer.Name, err))
		case isLeft:
			found[consumer] = left
		}
	}
	return found, errors.Join(errs...)
}

// granted returns the consumers with grants, active or not.
func (c *Controller) granted(ctx context.Context) (map[quotav1alpha1.ConsumerRef]bool, error) {
	var list quotav1alpha1.ResourceGrantList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the grants: %w", err)
	}
	consumers := make(map[quotav1alpha1.ConsumerRef]bool, len(list.Items))
	for i := range list.Items {
		consumers[list.Items[i].Spec.ConsumerRef] = true
	}
	return consumers, nil
}

// inspect inspects a consumer without grants and claims. It removes the remains if the last inspection found the same
// trace, and otherwise returns the trace.
func (c *Controller) inspect(ctx context.Context, consumer quotav1alpha1.ConsumerRef, effective []*quotav1alpha1.EffectiveResourceGrant, last trace, wasFound bool) (left trace, isLeft bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, consumerTimeout)
	defer cancel()
	existence, err := c.Objects.Find(ctx, consumer)
	if err != nil || existence != NotFound {
		return trace{}, false, err
	}
	ledger, err := c.ledger(ctx, consumer)
	if err != nil || !isEmpty(ledger) {
		return trace{}, false, err
	}
	if ledger == nil && len(effective) == 0 {
		c.Consumers.Forget(consumer)
		return trace{}, false, nil
	}
	if left = traceOf(ledger, effective); !wasFound || left != last {
		return left, true, nil
	}
	return trace{}, false, c.remove(ctx, consumer, ledger, effective)
}

// ledger reads the ledger of a consumer, and returns nil if there is none.
func (c *Controller) ledger(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (*quotav1alpha1.ConsumerLedger, error) {
	ledger := &quotav1alpha1.ConsumerLedger{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: naming.Ledger(consumer)}, ledger)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the ledger: %w", err)
	case ledger.Spec.ConsumerRef != consumer:
		return nil, fmt.Errorf("ledger %s is of another consumer", ledger.Name)
	}
	return ledger, nil
}

// isEmpty reports whether the controller may remove a ledger. It may not remove a ledger in a later format, nor one
// with changes missing in the journal. An observation without demand is no reason to keep it: should a replica that is
// behind bring demand back, the next observation by another replica removes it.
func isEmpty(ledger *quotav1alpha1.ConsumerLedger) bool {
	if ledger == nil {
		return true
	}
	spec := &ledger.Spec
	return spec.Format <= quotav1alpha1.ConsumerLedgerFormat && len(spec.Grants) == 0 && len(spec.Reservations) == 0 && len(spec.Slices) == 0 &&
		!slices.ContainsFunc(spec.Observations, hasDemand) && !ledgerstore.HasRecords(spec.Journal)
}

func hasDemand(o quotav1alpha1.LedgerObservation) bool { return len(o.Demands) > 0 }

// effective returns the effective grants by consumer.
func (c *Controller) effective(ctx context.Context) (map[quotav1alpha1.ConsumerRef][]*quotav1alpha1.EffectiveResourceGrant, error) {
	var list quotav1alpha1.EffectiveResourceGrantList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the effective grants: %w", err)
	}
	effective := map[quotav1alpha1.ConsumerRef][]*quotav1alpha1.EffectiveResourceGrant{}
	for i := range list.Items {
		shown := &list.Items[i]
		effective[shown.Spec.ConsumerRef] = append(effective[shown.Spec.ConsumerRef], shown)
	}
	return effective, nil
}

func traceOf(ledger *quotav1alpha1.ConsumerLedger, effective []*quotav1alpha1.EffectiveResourceGrant) trace {
	var left trace
	if ledger != nil {
		left.uid, left.version = string(ledger.UID), ledger.ResourceVersion
	}
	uids := make([]string, 0, len(effective))
	for _, shown := range effective {
		uids = append(uids, string(shown.UID))
	}
	slices.Sort(uids)
	left.effectiveUIDs = strings.Join(uids, " ")
	return left
}

// remove deletes the remains of a consumer, unless the API server knows grants or claims missing in the cache.
func (c *Controller) remove(ctx context.Context, consumer quotav1alpha1.ConsumerRef, ledger *quotav1alpha1.ConsumerLedger, effective []*quotav1alpha1.EffectiveResourceGrant) error {
	named := client.MatchingFields{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name}
	var grants quotav1alpha1.ResourceGrantList
	if err := c.Live.List(ctx, &grants, named); err != nil {
		return fmt.Errorf("list the grants: %w", err)
	}
	for i := range grants.Items {
		if grants.Items[i].Spec.ConsumerRef == consumer {
			return nil
		}
	}
	var claims quotav1alpha1.ResourceClaimList
	if err := c.Live.List(ctx, &claims, named, client.MatchingLabelsSelector{Selector: claimcache.OfRecord()}); err != nil {
		return fmt.Errorf("list the claims: %w", err)
	}
	for i := range claims.Items {
		if claims.Items[i].Spec.ConsumerRef == consumer {
			return nil
		}
	}
	if ledger != nil {
		unchanged := client.Preconditions{UID: &ledger.UID, ResourceVersion: &ledger.ResourceVersion}
		err := c.Client.Delete(ctx, &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: ledger.Name}}, unchanged)
		switch {
		case apierrors.IsConflict(err):
			return nil // somebody needs it again
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("delete the ledger: %w", err)
		}
	}
	for _, shown := range effective {
		same := client.Preconditions{UID: &shown.UID}
		err := c.Client.Delete(ctx, &quotav1alpha1.EffectiveResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: shown.Namespace, Name: shown.Name}}, same)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete effective grant %s/%s: %w", shown.Namespace, shown.Name, err)
		}
	}
	c.Log.V(1).Info("removed the data of a deleted consumer", "consumer", consumer.Kind+"/"+consumer.Name)
	return nil
}
