package simulation

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/controller/webhookconfig"
	"github.com/bursar/bursar/test/simulation/controlplane"
)

// factorLabel is the label of a policy with the factor by which it charges the cost of objects.
const factorLabel = "factor"

// factor is one by which the policy in effect charges from a version on.
type factor struct {
	at     int64
	time   time.Time
	factor int64
}

func amountExpression(factor int64) string { return fmt.Sprintf("int(trigger.data.n) * %d", factor) }

// changePolicy makes the policy charge objects by another factor, as a leader makes a changed policy effective: first
// the webhook has its version, and then the status says so. If ctx ends, that happens at once.
func (w *World) changePolicy(ctx context.Context, factor int64) {
	w.note("the policy charges %d times the cost", factor)
	w.updatePolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Generation++
		p.Labels = map[string]string{factorLabel: strconv.FormatInt(factor, 10)}
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = amountExpression(factor)
	})
	if !w.calm() {
		pause(ctx, w.upTo(3*time.Second))
	}
	w.publish()
	if !w.calm() {
		pause(ctx, w.upTo(3*time.Second))
	}
	w.updatePolicy(makeEffective)
}

func (w *World) updatePolicy(change func(*quotav1alpha1.ClaimCreationPolicy)) {
	p := w.model.storedPolicy()
	change(p)
	w.must(w.store.Update(controlplane.Key{Resource: "claimcreationpolicies", Name: policyName}, p))
}

// publish has the API servers call the webhook with the version of the declarations.
func (w *World) publish() {
	version := catalog.VersionOf(
		[]quotav1alpha1.ClaimCreationPolicy{*w.model.storedPolicy()}, []quotav1alpha1.ResourceRegistration{*registration()})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.path = webhookconfig.EnforcePath + "/" + version.String()
}

func (w *World) webhookPath() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.path
}

// notePolicy notes a version of the policy. Another factor counts once it is in effect.
func (m *model) notePolicy(r *controlplane.Revision) {
	m.policy, m.changed = decoded[quotav1alpha1.ClaimCreationPolicy](r), time.Now()
	now, err := strconv.ParseInt(m.policy.Labels[factorLabel], 10, 64)
	if err != nil {
		now = 1
	}
	if m.policy.Status.Effective.Generation == m.policy.Generation {
		m.factors = append(m.factors, factor{r.Version, time.Now(), now})
	}
}

func (m *model) storedPolicy() *quotav1alpha1.ClaimCreationPolicy {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.policy.DeepCopy()
}

// factor returns the factor in effect.
func (m *model) factor() int64 { return m.factors[len(m.factors)-1].factor }

// factorsSince returns the smallest and the largest factor in effect since a version.
func (m *model) factorsSince(version int64) (low, high int64) {
	return m.factorsIf(func(until factor) bool { return until.at > version })
}

// factorLately returns the largest factor that a replica may go by.
func (m *model) factorLately() (high int64) {
	if m.shape.changesPolicy && time.Since(m.changed) <= movingTime {
		return 2 // the next one may be
	}
	_, high = m.factorsIf(func(until factor) bool { return time.Since(until.time) <= movingTime })
	return high
}

// factorsIf returns the smallest and the largest factor among the present one, and the former ones whose successors
// meet a condition.
func (m *model) factorsIf(meets func(until factor) bool) (low, high int64) {
	low, high = m.factor(), m.factor()
	for i := range m.factors[:len(m.factors)-1] {
		if meets(m.factors[i+1]) {
			low, high = min(low, m.factors[i].factor), max(high, m.factors[i].factor)
		}
	}
	return low, high
}

// costNow returns what an object demands by the policy in effect.
func (m *model) costNow(object *corev1.ConfigMap) int64 { return costOf(object) * m.factor() }
