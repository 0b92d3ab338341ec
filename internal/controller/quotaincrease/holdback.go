package quotaincrease

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/increase"
)

// holdBack holds back something more of each short resource, down to its former amount. If no contribution is left to
// hold back, the resource keeps its former amount: 0 if it had none, because leaving it out would set no limit. It
// returns false if nothing changes.
//
// It holds back at least one contribution, and all contributions beyond the room in the cache: then the next try is
// probably the last. A later change of the cache reconciles the namespace again.
func (f *fit) holdBack(ctx context.Context, sentences map[corev1.ResourceName]string) (isLess bool) {
	f.outcomes.markHeldBack(f.namespace.Name)
	room := f.room(ctx)
	for name, sentence := range sentences {
		if _, isKept := f.input.Floor[name]; !isKept {
			f.keepFormer(name)
		}
		most, isKnown := room[name]
		if kept := f.input.Floor[name]; kept.Cmp(most) > 0 {
			most = kept // the namespace holds as much already
		}
		result := f.result
		for f.holdBackOne(result, name, sentence) {
			isLess = true
			result = increase.Compute(f.input)
			if now := result.Hard[name]; !isKnown || now.Cmp(most) <= 0 {
				break
			}
		}
	}
	return isLess
}

// holdBackOne holds back one contribution to a resource, or fixes the resource if there is none left. It returns false
// if nothing changes.
func (f *fit) holdBackOne(result increase.Result, name corev1.ResourceName, sentence string) (isLess bool) {
	if next, found := result.NextToHold(name); found {
		f.input.Held[next] = true
		f.sentences[next] = sentence
		return true
	}
	amount := f.input.Floor[name]
	if before, isFixed := f.input.Fixed[name]; isFixed && before.Cmp(amount) == 0 {
		return false
	}
	f.input.Fixed[name] = amount
	f.baseSentences[name] = sentence
	return true
}

// keepFormer fixes a resource at its former amount, up to the desired amount.
func (f *fit) keepFormer(name corev1.ResourceName) {
	all, had := increase.Compute(f.input.WithoutCaps()).Hard[name], f.former[name]
	if had.Cmp(all) > 0 {
		had = all
	}
	f.input.Floor[name] = had
}

// room returns the largest possible amount of each capped resource in the ResourceQuota, from the cache. After a read
// error it returns nothing.
func (f *fit) room(ctx context.Context) corev1.ResourceList {
	var list quotav1alpha1.LocalResourceQuotaAllocationList
	if err := f.Client.List(ctx, &list, client.InNamespace(f.namespace.Name)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list LocalResourceQuotaAllocations")
		return nil
	}
	scopes := allocation.ScopesOf(&f.match.definition.Template.Spec)
	room := corev1.ResourceList{}
	for i := range list.Items {
		local := &list.Items[i]
		if allocation.ScopesOf(&local.Spec.Allocation) != scopes {
			continue
		}
		for name, amount := range allocation.Limits(local.Status.Available) {
			if least, isKnown := room[name]; !isKnown || amount.Cmp(least) < 0 {
				room[name] = amount
			}
		}
	}
	return room
}
