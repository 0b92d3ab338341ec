package quotaincrease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/increase"
	"github.com/bursar/bursar/internal/kube/progress"
)

// increaseStatus is the published status of an increase.
type increaseStatus struct {
	// mode is empty without a definition. Then there is no effect either.
	mode      openmcpv1alpha1.QuotaMode
	effect    string
	condition metav1.Condition
	// superfluous is the reason to delete the increase, or empty.
	superfluous string
	// toBeDeleted is the reason to delete it without previewDeletion, or empty.
	toBeDeleted string
}

func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: openmcpv1alpha1.ConditionEffective, Status: status, Reason: reason, Message: message}
}

// reconcileIncreases publishes the result on the increases of a namespace, and deletes superfluous ones if the
// definition demands it. It returns false if its input is out of date.
func (r *Reconciler) reconcileIncreases(ctx context.Context, f *fit, objects []openmcpv1alpha1.QuotaIncrease) (isCurrent bool, err error) {
	definition := f.match.definition
	var superfluous []*openmcpv1alpha1.QuotaIncrease
	var errs []error
	reasons := map[string]string{}
	for i := range objects {
		s := f.evaluateIncrease(&objects[i])
		switch {
		case s.superfluous == "":
		case definition.PreviewDeletion:
			s.toBeDeleted = s.superfluous
		case definition.DeleteIneffectiveQuotas:
			superfluous, reasons[objects[i].Name] = append(superfluous, &objects[i]), s.superfluous
			continue
		}
		errs = append(errs, r.publish(ctx, &objects[i], s))
	}
	if len(superfluous) == 0 {
		return true, errors.Join(errs...)
	}
	left := objects
	for _, object := range superfluous {
		if isCurrent, err = r.isCurrent(ctx, f, left); !isCurrent || err != nil {
			return isCurrent, errors.Join(append(errs, err)...)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(o openmcpv1alpha1.QuotaIncrease) bool { return o.UID == object.UID })
		err := r.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
		if apierrors.IsNotFound(err) {
			continue // another client was first
		} else if err == nil {
			r.Events.Eventf(referenceToNamespace(f.namespace), referenceToIncrease(object), corev1.EventTypeNormal, openmcpv1alpha1.EventQuotaIncreaseDeleted, actionDelete,
				"QuotaIncrease %s was deleted, because definition %s deletes increases without effect: %s", object.Name, definition.Name, reasons[object.Name])
		} else if apierrors.IsConflict(err) {
			isCurrent = false
		} else {
			errs = append(errs, fmt.Errorf("delete QuotaIncrease %s/%s: %w", object.Namespace, object.Name, err))
		}
	}
	return isCurrent, errors.Join(errs...)
}

// isCurrent reports whether the API server still has the input of the decision: a deletion is final.
func (r *Reconciler) isCurrent(ctx context.Context, f *fit, objects []openmcpv1alpha1.QuotaIncrease) (bool, error) {
	namespace := newNamespace()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(f.namespace), namespace); err != nil {
		return false, fmt.Errorf("read namespace %s: %w", f.namespace.Name, err)
	}
	if !maps.Equal(ownLabelsLeftOut(namespace), ownLabelsLeftOut(f.namespace)) || ignoredBy(namespace) != "" {
		return false, nil // another definition may match, or another increase be in use
	}
	config := &openmcpv1alpha1.QuotaServiceConfig{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: f.match.config.Name}, config); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if config.UID != f.match.config.UID || config.Generation != f.match.config.Generation {
		return false, nil
	}
	live, err := increasesIn(ctx, r.Live, f.namespace.Name)
	if err != nil {
		return false, err
	}
	type version struct {
		uid        string
		generation int64
	}
	versions := func(objects []openmcpv1alpha1.QuotaIncrease) map[string]version {
		all := map[string]version{}
		for i := range objects {
			all[objects[i].Name] = version{string(objects[i].UID), objects[i].Generation}
		}
		return all
	}
	return maps.Equal(versions(live), versions(objects)), nil
}

// evaluateIncrease computes the status of an increase.
func (f *fit) evaluateIncrease(object *openmcpv1alpha1.QuotaIncrease) increaseStatus {
	s := increaseStatus{mode: f.match.definition.Mode}
	if name, amount, isNegative := increase.Negative(object.Spec.Hard); isNegative {
		s.condition = condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonInvalid,
			fmt.Sprintf("%s: %s must not be negative: an increase cannot lower a quota; change or delete it", name, amount.String()))
		return s
	}
	if why, isRejected := f.rejected[object.Name]; isRejected {
		s.condition = condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonInvalid,
			fmt.Sprintf("ResourceQuota %s cannot have it: %s; change or delete it", f.match.definition.Name, why))
		return s
	}
	effect := f.result.Effects[object.Name]
	s.effect = effect.String()
	f.explainEffect(&s, object, effect)
	return s
}

// explainEffect explains the effect of a valid increase.
func (f *fit) explainEffect(s *increaseStatus, object *openmcpv1alpha1.QuotaIncrease, effect increase.Effect) {
	quota := "ResourceQuota " + f.match.definition.Name
	contributed := increase.Effect{Hard: effect.Hard}.String()
	capped := f.cappedOf(object, effect)
	switch {
	case capped != "" && len(effect.Hard) == 0:
		s.condition = condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonCapReached, "held back by a cap: "+capped)
	case capped != "":
		s.condition = condition(metav1.ConditionTrue, openmcpv1alpha1.ReasonCapReached, fmt.Sprintf("%s has %s of it; the rest is held back by a cap: %s", quota, contributed, capped))
	case f.input.Mode == openmcpv1alpha1.ModeCumulative && len(object.Spec.Hard) == 0:
		s.superfluous = "it names no resource"
		s.condition = condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonOvershadowed, fmt.Sprintf("%s, so %s has as much without it", s.superfluous, quota))
	case effect.IsEffective && contributed == "":
		s.condition = condition(metav1.ConditionTrue, openmcpv1alpha1.ReasonInEffect, fmt.Sprintf("it counts, and %s has as much without it", quota))
	case effect.IsEffective:
		s.condition = condition(metav1.ConditionTrue, openmcpv1alpha1.ReasonInEffect, fmt.Sprintf("%s has %s of it", quota, contributed))
	case f.input.Mode == openmcpv1alpha1.ModeSingular:
		f.explainUnused(s, object)
	default:
		s.superfluous = fmt.Sprintf("%s has as much or more without it: %s", quota, f.overshadowing(object))
		s.condition = condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonOvershadowed, s.superfluous)
	}
}

// explainUnused explains why an increase does not count in singular mode. It is superfluous only if another counts.
func (f *fit) explainUnused(s *increaseStatus, object *openmcpv1alpha1.QuotaIncrease) {
	sentence := fmt.Sprintf("namespace %s has no label %s", f.namespace.Name, openmcpv1alpha1.LabelUse)
	if f.input.Use != "" {
		sentence = fmt.Sprintf("namespace %s has the label %s=%s", f.namespace.Name, openmcpv1alpha1.LabelUse, f.input.Use)
		if _, exists := f.result.Effects[f.input.Use]; exists {
			s.superfluous = sentence
		} else {
			sentence += ", which names no usable QuotaIncrease"
		}
	}
	s.condition = condition(metav1.ConditionFalse, openmcpv1alpha1.ReasonNotSelected,
		fmt.Sprintf("%s, and definition %s is in mode singular; set the label to %s for this one to count", sentence, f.match.definition.Name, object.Name))
}

// cappedOf returns why a cap holds back some of an increase, or nothing. If a cap does not even allow the base of a
// resource, nothing more is available, regardless of the increase's effect without the cap.
func (f *fit) cappedOf(object *openmcpv1alpha1.QuotaIncrease, effect increase.Effect) string {
	var texts []string
	counts := f.input.Mode != openmcpv1alpha1.ModeSingular || effect.IsUsed
	for _, name := range slices.Sorted(maps.Keys(f.input.Names.Of(object.Spec.Hard))) {
		if slices.Contains(effect.Held, name) {
			texts = append(texts, f.sentences[increase.Contribution{Increase: object.Name, Resource: name}])
		} else if _, isFixed := f.input.Fixed[name]; isFixed && counts {
			texts = append(texts, f.baseSentences[name])
		}
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// overshadowing compares the amounts of an increase with the ResourceQuota.
func (f *fit) overshadowing(object *openmcpv1alpha1.QuotaIncrease) string {
	var texts []string
	hard := f.input.Names.Of(object.Spec.Hard)
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		here, there := hard[name], f.result.Hard[name]
		texts = append(texts, fmt.Sprintf("%s: %s here, %s there", name, here.String(), there.String()))
	}
	if len(texts) == 0 {
		return "it names no resource"
	}
	return strings.Join(texts, ", ")
}

// baseMessage names the resources with a cap below the base, or returns nothing.
func (f *fit) baseMessage() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(f.input.Fixed)) {
		base, isLimited := f.input.Base[name]
		if got := f.input.Fixed[name]; isLimited && got.Cmp(base) < 0 {
			texts = append(texts, fmt.Sprintf("%s: %s instead of %s: %s", name, got.String(), base.String(), f.baseSentences[name]))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf("ResourceQuota %s/%s has less than the definition says: %s", f.namespace.Name, f.match.definition.Name, strings.Join(texts, "; "))
}

// reportAll gives all increases the same condition, without other changes.
func (r *Reconciler) reportAll(ctx context.Context, objects []openmcpv1alpha1.QuotaIncrease, status metav1.ConditionStatus, reason, message string) error {
	var errs []error
	for i := range objects {
		errs = append(errs, r.report(ctx, &objects[i], condition(status, reason, message)))
	}
	return errors.Join(errs...)
}

// publish writes the status of an increase, and emits an event when it marks the increase for deletion.
func (r *Reconciler) publish(ctx context.Context, object *openmcpv1alpha1.QuotaIncrease, s increaseStatus) error {
	marked := object.DeepCopy()
	isChanged := changeLabels(marked, map[string]string{openmcpv1alpha1.LabelMode: string(s.mode)})
	annotations := maps.Clone(object.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, openmcpv1alpha1.AnnotationEffect)
	delete(annotations, openmcpv1alpha1.AnnotationToBeDeleted)
	if s.mode != "" {
		annotations[openmcpv1alpha1.AnnotationEffect] = cut(s.effect)
	}
	if s.toBeDeleted != "" {
		annotations[openmcpv1alpha1.AnnotationToBeDeleted] = cut(s.toBeDeleted)
	}
	isNews := s.toBeDeleted != "" && object.Annotations[openmcpv1alpha1.AnnotationToBeDeleted] == ""
	if marked.SetAnnotations(annotations); isChanged || !maps.Equal(annotations, object.Annotations) {
		err := r.Client.Patch(ctx, marked, client.MergeFrom(object))
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if isNews {
		r.Events.Eventf(referenceToIncrease(object), nil, corev1.EventTypeNormal, openmcpv1alpha1.EventQuotaIncreaseWouldBeDeleted, actionDelete,
			"without previewDeletion, the definition would delete it: %s", s.toBeDeleted)
	}
	return r.report(ctx, marked, s.condition)
}

// report writes the condition of an increase.
func (r *Reconciler) report(ctx context.Context, object *openmcpv1alpha1.QuotaIncrease, c metav1.Condition) error {
	updated := object.DeepCopy()
	c.ObservedGeneration, c.Message = object.Generation, cut(c.Message)
	apimeta.SetStatusCondition(&updated.Status.Conditions, c)
	state := progress.Waiting
	switch c.Reason {
	case openmcpv1alpha1.ReasonInEffect:
		state = progress.Reached
	case openmcpv1alpha1.ReasonInvalid:
		state = progress.Stalled
	}
	progress.Set(&updated.Status.Conditions, state, c)
	updated.Status.ObservedGeneration = object.Generation
	if equality.Semantic.DeepEqual(object.Status, updated.Status) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, updated); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update the status of QuotaIncrease %s/%s: %w", object.Namespace, object.Name, err)
	}
	return nil
}
