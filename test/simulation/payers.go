package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// move is a version of a namespace from which on another consumer pays for its objects.
type move struct {
	at    int64
	time  time.Time
	payer quotav1alpha1.ConsumerRef
}

// movingTime is more than a namespace takes until all know who pays for its objects, also after an outage of the API
// servers, and the pause before clients connect again.
const movingTime = 90 * time.Second

// noteMove notes who pays for the objects of a namespace.
func (m *model) noteMove(r *controlplane.Revision) {
	payer := platform.Consumer(decoded[corev1.Namespace](r).Labels[payerLabel])
	m.note("%s namespace %s, version %d, %s pays", r.Event, r.Name, r.Version, payer.Name)
	if len(m.moves[r.Name]) == 0 || m.payerIn(r.Name) != payer {
		m.moves[r.Name] = append(m.moves[r.Name], move{r.Version, time.Now(), payer})
	}
}

// payerIn returns who pays for the objects of a namespace now.
func (m *model) payerIn(namespace string) quotav1alpha1.ConsumerRef {
	moves := m.moves[namespace]
	return moves[len(moves)-1].payer
}

func (m *model) payerOf(object *corev1.ConfigMap) quotav1alpha1.ConsumerRef {
	return m.payerIn(object.Namespace)
}

// isAtRest reports whether neither a namespace has moved nor the policy has changed for a while.
func (m *model) isAtRest(namespace string) bool {
	moves := m.moves[namespace]
	if m.shape.changesPolicy && time.Since(m.changed) <= movingTime {
		return false
	}
	return len(moves) == 1 || time.Since(moves[len(moves)-1].time) > movingTime
}

// isKnownWhoPays returns an error while a process may still know another payer or policy.
func (m *model) isKnownWhoPays() error {
	m.mu.Lock()
	defer m.mu.Unlock()

	for namespace := range m.moves {
		if !m.isAtRest(namespace) {
			return fmt.Errorf("namespace %s has changed hands, or the policy has changed", namespace)
		}
	}
	return nil
}

// mayPay reports whether a ledger may count the objects of a namespace.
func (m *model) mayPay(of quotav1alpha1.ConsumerRef, namespace string) bool {
	moves := m.moves[namespace]
	for i := range moves {
		isPast := i+1 < len(moves) && time.Since(moves[i+1].time) > movingTime
		if moves[i].payer == of && !isPast {
			return true
		}
	}
	return false
}

// cost is what some objects demand, and how many of them demand anything.
type cost struct{ cost, objects int64 }

// demandAt returns what the objects of a consumer demand as of an observation, at least and at most: by the namespaces
// and policies as of its versions, or later ones.
func (m *model) demandAt(of quotav1alpha1.ConsumerRef, observed *quotav1alpha1.LedgerObservation) (least, most cost) {
	low, high := m.factorsSince(observed.PoliciesVersion)
	for uid := range m.past {
		object, _ := m.past.at(uid, observed.ObjectsVersion)
		if object == nil || costOf(object) == 0 {
			continue
		}
		always, ever := m.pays(of, object.Namespace, observed.NamespacesVersion)
		if always {
			least.cost += costOf(object) * low
			least.objects++
		}
		if ever {
			most.cost += costOf(object) * high
			most.objects++
		}
	}
	return least, most
}

// pays reports whether a consumer pays for the objects of a namespace since a version, always and ever.
func (m *model) pays(of quotav1alpha1.ConsumerRef, namespace string, since int64) (always, ever bool) {
	moves := m.moves[namespace]
	always = true
	for i := range moves {
		if i+1 < len(moves) && moves[i+1].at <= since {
			continue
		}
		always = always && moves[i].payer == of
		ever = ever || moves[i].payer == of
	}
	return always, ever
}

// moveNamespace makes a consumer pay for the objects of a namespace.
func (w *World) moveNamespace(name, payer string) {
	key := controlplane.Key{Resource: "namespaces", Name: name}
	w.store.Change(key, func(namespace metav1.Object) { namespace.SetLabels(map[string]string{payerLabel: payer}) })
}
