package quotaincrease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/allocation"
	"github.com/bursar/bursar/internal/increase"
)

// fit writes the ResourceQuota of a namespace: the whole composition, or as much as caps and the API server allow.
type fit struct {
	*Reconciler
	namespace *metav1.PartialObjectMetadata
	match     *match
	// stored is the existing ResourceQuota, or nil.
	stored *corev1.ResourceQuota
	input  increase.Input
	// result is the written composition.
	result increase.Result
	// former are the amounts from generated ResourceQuotas at the beginning.
	former corev1.ResourceList
	// sentences are the reasons for held back contributions, and baseSentences those for the base.
	sentences     map[increase.Contribution]string
	baseSentences map[corev1.ResourceName]string
	// rejected are the increases rejected by the API server in this ResourceQuota, with the reason.
	rejected map[string]string
}

// errOutdated means that the input of the decision is out of date.
var errOutdated = errors.New("the ResourceQuota was changed in between")

// run tries until a write of the ResourceQuota succeeds. Each try after a denial holds back something more, so it ends.
func (f *fit) run(ctx context.Context) error {
	f.sentences, f.baseSentences, f.rejected = map[increase.Contribution]string{}, map[corev1.ResourceName]string{}, map[string]string{}
	f.input.Held, f.input.Fixed, f.input.Floor = map[increase.Contribution]bool{}, corev1.ResourceList{}, corev1.ResourceList{}
	var err error
	if f.former, err = f.formerAmounts(ctx); err != nil {
		return err
	}
	for {
		f.result = increase.Compute(f.input)
		quota := desiredQuota(f.stored, f.namespace, f.match, f.result)
		if isSame(f.stored, quota) {
			return nil
		}
		err := f.write(ctx, quota)
		if err == nil {
			return nil
		}
		sentences := inQuota(quota.Spec.Hard, capped(err))
		switch {
		case len(sentences) > 0 && f.holdBack(ctx, sentences):
			continue
		case apierrors.IsInvalid(err):
			found, checkErr := f.leaveOut(ctx)
			if checkErr != nil {
				return checkErr
			}
			if found {
				continue
			}
		}
		return fmt.Errorf("write ResourceQuota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
}

// write writes a ResourceQuota and emits events on its changes.
func (f *fit) write(ctx context.Context, quota *corev1.ResourceQuota) error {
	if err := f.restoreLimiter.check(f.namespace.Name, &quota.Spec); err != nil {
		return err
	}
	if f.stored != nil && !hasScopesOf(f.stored, quota) {
		if err := f.replaceScopes(ctx, quota); err != nil {
			return err
		}
	}
	before := f.stored
	var err error
	if before == nil {
		err = f.Client.Create(ctx, quota)
	} else {
		err = f.Client.Update(ctx, quota)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || before != nil && apierrors.IsNotFound(err) {
		return errOutdated
	}
	if err != nil {
		return err
	}
	f.restoreLimiter.recordWrite(f.namespace.Name, &quota.Spec)
	f.stored = quota
	f.recordComposition(before, quota, f.result.Composition())
	return nil
}

// replaceScopes deletes the stored ResourceQuota to replace it by one with other scopes. A dry run under another name
// comes first: without it, a rejection would leave the namespace without limits.
func (f *fit) replaceScopes(ctx context.Context, quota *corev1.ResourceQuota) error {
	quota.ObjectMeta = metav1.ObjectMeta{
		Namespace: quota.Namespace, Name: quota.Name, Labels: quota.Labels, Annotations: quota.Annotations, OwnerReferences: quota.OwnerReferences,
	}
	tried := quota.DeepCopy()
	tried.Name, tried.GenerateName = "", quota.Name+"-"
	if err := f.Client.Create(ctx, tried, client.DryRunAll); err != nil {
		return err
	}
	err := f.Client.Delete(ctx, f.stored, client.Preconditions{UID: &f.stored.UID})
	if apierrors.IsConflict(err) {
		return errOutdated
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	f.stored = nil
	return nil
}

// capped returns the denials of allocations, by resource.
func capped(err error) map[corev1.ResourceName]string {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	sentences := map[corev1.ResourceName]string{}
	for _, cause := range status.Status().Details.Causes {
		name, isHard := strings.CutPrefix(cause.Field, "spec.hard[")
		name, isWhole := strings.CutSuffix(name, "]")
		if cause.Type != quotav1alpha1.CauseAllocationExceeded || !isHard || !isWhole {
			continue
		}
		// Bursar may see the other holders of a cap, and the readers of this message may not.
		sentence, _, _ := strings.Cut(cause.Message, "; held by ")
		if before := sentences[corev1.ResourceName(name)]; before != "" && before != sentence {
			sentence = before + "; " + sentence
		}
		sentences[corev1.ResourceName(name)] = sentence
	}
	return sentences
}

// inQuota returns denials by the names in a ResourceQuota: the cap may name requests.cpu, and the ResourceQuota cpu.
func inQuota(hard corev1.ResourceList, denials map[corev1.ResourceName]string) map[corev1.ResourceName]string {
	sentences := map[corev1.ResourceName]string{}
	for name, sentence := range denials {
		for _, limiting := range allocation.Limiting(hard, name) {
			sentences[limiting] = sentence
		}
	}
	return sentences
}

// formerAmounts returns the amounts of the ResourceQuotas generated for the namespace, with the scopes of the
// definition. It includes those of another definition shortly before their deletion. The namespace holds these amounts
// of a cap already.
func (f *fit) formerAmounts(ctx context.Context) (corev1.ResourceList, error) {
	quotas, err := f.quotasIn(ctx, f.namespace.Name)
	if err != nil {
		return nil, err
	}
	scopes := allocation.ScopesOf(&f.match.definition.Template.Spec)
	former := corev1.ResourceList{}
	if f.stored != nil && allocation.ScopesOf(&f.stored.Spec) == scopes {
		former = f.stored.Spec.Hard
	}
	for i := range quotas {
		if q := &quotas[i]; q.DeletionTimestamp == nil && isGenerated(q, f.namespace) && allocation.ScopesOf(&q.Spec) == scopes {
			former = quotav1.Max(former, q.Spec.Hard)
		}
	}
	return former, nil
}

// leaveOut leaves out the increases rejected by the API server together with the definition. The definition without
// increases is certainly valid. It returns false if no increase is the cause.
func (f *fit) leaveOut(ctx context.Context) (found bool, err error) {
	var accepted []increase.Increase
	for _, each := range f.input.Increases {
		quota := increase.Quota(f.match.definition)
		if quota.Spec.Hard == nil {
			quota.Spec.Hard = corev1.ResourceList{}
		}
		maps.Copy(quota.Spec.Hard, each.Hard)
		errs, err := f.Definitions.Specs.Check(ctx, field.NewPath("spec"), quota)
		if err != nil {
			return false, err
		}
		if len(errs) > 0 {
			f.rejected[each.Name] = errs.ToAggregate().Error()
		} else {
			accepted = append(accepted, each)
		}
	}
	found = len(accepted) < len(f.input.Increases)
	f.input.Increases = accepted
	return found, nil
}
