// Package progress sets the conditions Reconciling and Stalled. Tools such as Flux, Argo CD and kpt tell by them
// whether an object has the effect that its author asked for, see the package kstatus of sigs.k8s.io/cli-utils.
//
// Both conditions are present only while they are True, so an object in order has neither.
package progress

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// State is how far an object is from its effect.
type State string

const (
	// Reached means that the object has its effect.
	Reached State = ""
	// Waiting means that the object gets its effect without another change of it, for example once a resource type has a
	// registration, quota is free, or a time has come.
	Waiting State = quotav1alpha1.ConditionReconciling
	// Stalled means that the object has no effect until somebody changes it, or the object in conflict with it.
	Stalled State = quotav1alpha1.ConditionStalled
)

// Set sets the condition of a state, and removes the other one. cause is the condition of the object that explains the
// state. It gives its reason, message and observed generation.
func Set(conditions *[]metav1.Condition, state State, cause metav1.Condition) {
	for _, other := range []State{Waiting, Stalled} {
		if other != state {
			apimeta.RemoveStatusCondition(conditions, string(other))
		}
	}
	if state == Reached {
		return
	}
	apimeta.SetStatusCondition(conditions, metav1.Condition{
		Type: string(state), Status: metav1.ConditionTrue, Reason: cause.Reason, Message: cause.Message,
		ObservedGeneration: cause.ObservedGeneration, LastTransitionTime: cause.LastTransitionTime,
	})
}
