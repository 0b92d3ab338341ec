package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/sdk/claims"
)

// plan is the work on a WorkloadDeployment, with its new status.
type plan struct {
	// create are the names of new Instances.
	create []string
	// update and remove are Instances.
	update, remove []*computev1alpha1.Instance
	// expiredRemovals is the number of Instances in remove that have waited for too long.
	expiredRemovals int
	status          computev1alpha1.WorkloadDeploymentStatus
	// again is the time until the next plan if nothing changes, or 0.
	again time.Duration
}

// replicas are the Instances of a WorkloadDeployment, except for those being deleted.
type replicas []*computev1alpha1.Instance

// count returns the number of replicas that is accepts.
func (r replicas) count(is func(*computev1alpha1.Instance) bool) (n int) {
	for _, instance := range r {
		if is(instance) {
			n++
		}
	}
	return n
}

// planFor makes the plan for a deployment. all are the Instances in its namespace, and usage is the known usage of its
// Project.
//
// It creates Instances while only a few wait for quota: these detect new quota, and take it as soon as there is some.
// So a deployment far too large does not fill the waiting list, and a deployment with more quota continues at once.
func planFor(d *computev1alpha1.WorkloadDeployment, all []computev1alpha1.Instance, usage []claims.Usage, now time.Time) plan {
	var active replicas
	taken := map[string]bool{}
	for i := range all {
		taken[all[i].Name] = true
		if metav1.IsControlledBy(&all[i], d) && all[i].DeletionTimestamp == nil {
			active = append(active, &all[i])
		}
	}
	p := plan{}
	desired := int(*d.Spec.Replicas)
	active, expired := p.expireWaiting(d, active, usage, now)
	expired = min(expired, max(desired-active.count(isGranted), 0))

	surplus := len(active) - (desired - expired)
	if surplus > 0 {
		slices.SortStableFunc(active, func(a, b *computev1alpha1.Instance) int { return cmp.Compare(worth(a), worth(b)) })
		p.remove, active = append(p.remove, active[:surplus]...), active[surplus:]
	}
	missing := min(-surplus, int(d.Spec.Quota.WaitingReplicasMax)-(len(active)-active.count(isGranted)))
	for n := 0; len(p.create) < missing; n++ {
		if name := fmt.Sprintf("%s-%d", d.Name, n); !taken[name] {
			p.create = append(p.create, name)
		}
	}
	p.update = toUpdate(d, active)
	p.status = statusOf(d, active, expired, usage)
	return p
}

// expireWaiting removes the Instances that have waited for the maximum time. It returns the others, and the total
// number of removed ones until there is quota for them or the spec changes.
func (p *plan) expireWaiting(d *computev1alpha1.WorkloadDeployment, active replicas, usage []claims.Usage, now time.Time) (others replicas, expired int) {
	ttl := d.Spec.Quota.WaitingTTL
	if ttl == nil {
		return active, 0
	}
	if d.Generation == d.Status.ObservedGeneration {
		expired = int(d.Status.QuotaExpiredReplicas)
	}
	// They return one by one, because the known usage is slightly out of date and ignores dimensions. An Instance that
	// returns in vain waits for the maximum time again, by itself.
	if expired > 0 && active.count(isGranted) == len(active) && isRoomFor(amountsOf(d.Spec.Template.Spec.Resources), usage) {
		expired--
	}
	for _, instance := range active {
		if !isBlocked(instance) {
			others = append(others, instance)
			continue
		}
		since := apimeta.FindStatusCondition(instance.Status.Conditions, claims.ConditionQuotaGranted).LastTransitionTime
		left := since.Add(ttl.Duration).Sub(now)
		if left > 0 {
			others = append(others, instance)
			if p.again == 0 || left < p.again {
				p.again = left
			}
			continue
		}
		p.remove = append(p.remove, instance)
		p.expiredRemovals++
	}
	return others, expired + p.expiredRemovals
}

// isRoomFor reports whether, by the known usage, Bursar would grant the amounts.
func isRoomFor(amounts []quotav1alpha1.ResourceRequest, usage []claims.Usage) bool {
	return !slices.ContainsFunc(amounts, func(amount quotav1alpha1.ResourceRequest) bool {
		of := usageOf(usage, amount.ResourceType)
		return of == nil || of.Available < amount.Amount
	})
}

func usageOf(usage []claims.Usage, resourceType string) *claims.Usage {
	i := slices.IndexFunc(usage, func(u claims.Usage) bool { return u.ResourceType == resourceType })
	if i < 0 {
		return nil
	}
	return &usage[i]
}

// worth orders Instances for removal: those without quota first, then those that are not ready.
func worth(instance *computev1alpha1.Instance) int {
	switch {
	case isReady(instance):
		return 2
	case isGranted(instance):
		return 1
	default:
		return 0
	}
}

// toUpdate returns the Instances to update to the template: all Instances not ready. Once all updated ones are ready
// with the resources of the template, it returns one of the ready ones, too.
func toUpdate(d *computev1alpha1.WorkloadDeployment, active replicas) (update []*computev1alpha1.Instance) {
	var ready []*computev1alpha1.Instance
	isSettled := true
	for _, instance := range active {
		isLike := isAsTemplate(d, instance)
		switch {
		case !isLike && isReady(instance):
			ready = append(ready, instance)
		case !isLike:
			update = append(update, instance)
		case isGranted(instance):
			isSettled = isSettled && isReady(instance) && isUpdated(d, instance)
		}
	}
	if isSettled && len(ready) > 0 {
		update = append(update, ready[0])
	}
	return update
}

func isAsTemplate(d *computev1alpha1.WorkloadDeployment, instance *computev1alpha1.Instance) bool {
	return equality.Semantic.DeepEqual(instance.Spec, d.Spec.Template.Spec)
}

// isUpdated reports whether an Instance matches the template and has its resources.
func isUpdated(d *computev1alpha1.WorkloadDeployment, instance *computev1alpha1.Instance) bool {
	return isAsTemplate(d, instance) && instance.Status.ObservedGeneration == instance.Generation &&
		apimeta.IsStatusConditionTrue(instance.Status.Conditions, computev1alpha1.ConditionProgrammed) &&
		apimeta.FindStatusCondition(instance.Status.Conditions, claims.ConditionQuotaResizePending) == nil
}

func isReady(instance *computev1alpha1.Instance) bool {
	return apimeta.IsStatusConditionTrue(instance.Status.Conditions, computev1alpha1.ConditionReady)
}

func isGranted(instance *computev1alpha1.Instance) bool {
	return apimeta.IsStatusConditionTrue(instance.Status.Conditions, claims.ConditionQuotaGranted)
}

// isDenied reports whether an Instance has no quota for the given reason.
func isDenied(instance *computev1alpha1.Instance, reason string) bool {
	condition := apimeta.FindStatusCondition(instance.Status.Conditions, claims.ConditionQuotaGranted)
	return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == reason
}

// isBlocked reports whether there is not enough quota for an Instance.
func isBlocked(instance *computev1alpha1.Instance) bool {
	return isDenied(instance, quotav1alpha1.ReasonQuotaExceeded)
}

func isInvalid(instance *computev1alpha1.Instance) bool {
	return isDenied(instance, quotav1alpha1.ReasonValidationFailed)
}

// statusOf returns the status of a deployment.
func statusOf(d *computev1alpha1.WorkloadDeployment, active replicas, expired int, usage []claims.Usage) computev1alpha1.WorkloadDeploymentStatus {
	status := *d.Status.DeepCopy()
	desired, granted, waiting := int(*d.Spec.Replicas), active.count(isGranted), active.count(isBlocked)
	blocked := 0
	if waiting+expired > 0 {
		undecided := len(active) - granted - waiting
		blocked = max(desired-granted-undecided, 0)
	}
	status.ObservedGeneration = d.Generation
	status.DesiredReplicas, status.Replicas = int32(desired), int32(granted)
	status.ReadyReplicas = int32(active.count(isReady))
	status.UpdatedReplicas = int32(active.count(func(i *computev1alpha1.Instance) bool { return isGranted(i) && isUpdated(d, i) }))
	status.QuotaBlockedReplicas, status.QuotaExpiredReplicas = int32(blocked), int32(expired)
	status.Selector = computev1alpha1.LabelWorkloadDeployment + "=" + d.Name

	condition := metav1.Condition{Type: computev1alpha1.ConditionReplicasReady, Status: metav1.ConditionFalse, ObservedGeneration: d.Generation}
	switch {
	case blocked > 0:
		condition.Reason, condition.Message = quotav1alpha1.ReasonQuotaExceeded, blockedMessage(d, blocked, waiting, expired, usage)
	case active.count(isInvalid) > 0:
		first := active[slices.IndexFunc(active, isInvalid)]
		condition.Reason = quotav1alpha1.ReasonValidationFailed
		condition.Message = fmt.Sprintf("%d of %d desired replicas cannot claim quota: %s", active.count(isInvalid), desired,
			apimeta.FindStatusCondition(first.Status.Conditions, claims.ConditionQuotaGranted).Message)
	case int(status.ReadyReplicas) != desired || len(active) != desired:
		condition.Reason = computev1alpha1.ReasonProgressing
		condition.Message = fmt.Sprintf("%d of %d desired replicas are ready", status.ReadyReplicas, desired)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, computev1alpha1.ReasonReplicasReady
		condition.Message = fmt.Sprintf("%d of %d desired replicas are ready", desired, desired)
	}
	apimeta.SetStatusCondition(&status.Conditions, condition)
	return status
}

// blockedMessage counts the replicas without quota, and names the resource types that are short.
func blockedMessage(d *computev1alpha1.WorkloadDeployment, blocked, waiting, expired int, usage []claims.Usage) string {
	text := fmt.Sprintf("%d of %d desired replicas are pending quota", blocked, *d.Spec.Replicas)
	var short []string
	for _, amount := range amountsOf(d.Spec.Template.Spec.Resources) {
		if of := usageOf(usage, amount.ResourceType); of != nil && of.Available < amount.Amount {
			short = append(short, of.ResourceType+": "+of.String())
		}
	}
	if len(short) > 0 {
		text += " (" + strings.Join(short, "; ") + ")"
	}
	switch {
	case expired > 0:
		text += fmt.Sprintf("; %d of them are created once there is quota, as they have waited for %s", expired, d.Spec.Quota.WaitingTTL.Duration)
	case waiting < blocked:
		text += fmt.Sprintf("; %d of them are created and wait", waiting)
	}
	return text
}
