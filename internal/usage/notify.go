package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/kube/events"
	"github.com/bursar/bursar/internal/ledger"
)

// notifyInterval is the time between two reads of all buckets. A level that ends in between goes unreported.
const notifyInterval = 10 * time.Second

// Notifier reports to consumers, by events on their EffectiveResourceGrants, when they come close to a limit, reach it
// or exceed it, and when they leave the level.
type Notifier struct {
	Source Source
	// Registrations has the units.
	Registrations *catalog.Catalog
	Events        *events.Recorder
	Log           logr.Logger

	// levels are the last reported levels above Below. It is nil before the first read.
	levels map[pair]Level
}

// Run reports until ctx ends. It does not report the first levels, because the previous leader usually has.
func (n *Notifier) Run(ctx context.Context) error {
	wait.UntilWithContext(ctx, n.notifyChanges, notifyInterval)
	return nil
}

// notifyChanges reports the consumers at other levels than before.
func (n *Notifier) notifyChanges(ctx context.Context) {
	buckets, err := n.Source.Buckets(ctx)
	if err != nil {
		n.Log.V(1).Info("cannot report their usage to consumers", "err", err.Error())
		return
	}
	thresholds, err := n.Source.Thresholds(ctx)
	if err != nil {
		n.Log.V(1).Info("cannot report their usage to consumers", "err", err.Error())
		return
	}
	levels := map[pair]Level{}
	for i := range buckets {
		bucket := &buckets[i]
		of := pair{bucket.Spec.ConsumerRef, bucket.Spec.ResourceType}
		if _, seen := levels[of]; seen || len(bucket.Spec.Dimensions) > 0 {
			continue
		}
		u := usageOf(bucket)
		percent := thresholds.Percent(u.Consumer, u.ResourceType)
		before := n.levels[of]
		levels[of] = u.Level(before, percent)
		if n.levels != nil && levels[of] != before {
			n.recordLevel(bucket, u, levels[of], percent)
		}
	}
	n.levels = levels
}

// recordLevel records the event about a level.
func (n *Notifier) recordLevel(bucket *quotav1alpha1.AllowanceBucket, u Usage, level Level, percent int) {
	owner := metav1.GetControllerOf(bucket)
	if owner == nil {
		return // it is about to have one
	}
	shown := &corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: bucket.Namespace, Name: owner.Name, UID: owner.UID,
		// A repeated event keeps its first note. The version makes other amounts another event.
		ResourceVersion: bucket.ResourceVersion,
	}
	name, amounts := u.ResourceType, fmt.Sprintf("%d of %d", u.Used, u.Limit)
	if r := n.Registrations.Registration(u.ResourceType); r != nil {
		name = r.Named()
		amounts = message.Amount(ledger.Amount(u.Used), r) + " of " + message.Amount(ledger.Amount(u.Limit), r)
	}
	emit := func(kind, reason, text string, args ...any) {
		n.Events.Eventf(shown, nil, kind, reason, "Watch", "%s uses "+text, append([]any{message.Consumer(u.Consumer)}, args...)...)
	}
	switch level {
	case Exceeded:
		emit(corev1.EventTypeWarning, quotav1alpha1.EventQuotaExceeded, "more %s than it is granted: %s. Bursar takes nothing back, and grants nothing more until it uses less.", name, amounts)
	case Reached:
		emit(corev1.EventTypeWarning, quotav1alpha1.EventQuotaReached, "all %s that it is granted: %s. Nothing more is granted until it uses less, or has a higher limit.", name, amounts)
	case Near:
		emit(corev1.EventTypeWarning, quotav1alpha1.EventQuotaNearLimit, "%s of %s, which is %d%% or more of its limit.", amounts, name, percent)
	case Below:
		if u.Limit == 0 {
			emit(corev1.EventTypeNormal, quotav1alpha1.EventQuotaBelowThreshold, "no more %s, and is granted none.", name)
			return
		}
		emit(corev1.EventTypeNormal, quotav1alpha1.EventQuotaBelowThreshold, "%s of %s, which is less than %d%% of its limit.", amounts, name, percent)
	}
}
