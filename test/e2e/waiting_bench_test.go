package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// BenchmarkReleaseWhileClaimsWait deletes the one granted claim of a consumer with 120 waiting claims. At that moment
// it creates a claim of another consumer. It reports the time until the first waiting claim is granted, after the
// charge came back, and the time until the other consumer's claim is granted.
func BenchmarkReleaseWhileClaimsWait(b *testing.B) {
	const waiting = 120
	m := newMeasured(b)
	granted := m.claim("busy", 0)
	m.await(granted, metav1.ConditionTrue)
	var queue []*quotav1alpha1.ResourceClaim
	for i := 1; i <= waiting; i++ {
		queue = append(queue, m.claim("busy", i))
		m.await(queue[i-1], metav1.ConditionFalse)
	}
	var charge, other time.Duration
	for i := range b.N {
		start := time.Now()
		if err := admin.Delete(b.Context(), granted); err != nil {
			b.Fatal(err)
		}
		m.await(m.claim("quiet", i), metav1.ConditionTrue)
		other += time.Since(start)
		granted, queue = queue[0], append(queue[1:], nil)
		m.await(granted, metav1.ConditionTrue)
		charge += time.Since(start)
		queue[waiting-1] = m.claim("busy", waiting+1+i)
		m.await(queue[waiting-1], metav1.ConditionFalse)
	}
	b.ReportMetric(float64(charge.Milliseconds())/float64(b.N), "release-ms")
	b.ReportMetric(float64(other.Milliseconds())/float64(b.N), "other-consumer-ms")
	b.ReportMetric(0, "ns/op") // it would count the creation of claims between two rounds
}

// measured is a resource type with two consumers: busy has a limit of 1, quiet one of a million.
type measured struct {
	*testing.B
	name string
}

func newMeasured(b *testing.B) *measured {
	b.Helper()
	m := &measured{B: b, name: fmt.Sprintf("measured-%d", time.Now().UnixNano())}
	m.create(&quotav1alpha1.ResourceRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: m.name},
		Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: m.name + "/slots", Type: quotav1alpha1.RegistrationTypeAllocation, ConsumerTypeRef: platform.ConsumerType(),
			BaseUnit: "slot", DisplayUnit: "slot", UnitConversionFactor: 1,
		},
	})
	for consumer, limit := range map[string]int64{"busy": 1, "quiet": 1_000_000} {
		grant := &quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Name: m.name + "-" + consumer, Namespace: metav1.NamespaceDefault},
			Spec: quotav1alpha1.ResourceGrantSpec{
				ConsumerRef: platform.Consumer(m.name + "-" + consumer),
				Allowances:  []quotav1alpha1.Allowance{{ResourceType: m.name + "/slots", Buckets: []quotav1alpha1.Bucket{{Amount: limit}}}},
			},
		}
		m.create(grant)
		m.until(grant, func() bool {
			return apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive)
		})
	}
	return m
}

// claim creates a claim of one slot.
func (m *measured) claim(consumer string, number int) *quotav1alpha1.ResourceClaim {
	claim := &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%04d", m.name, consumer, number), Namespace: metav1.NamespaceDefault},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: platform.Consumer(m.name + "-" + consumer),
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: m.name + "/slots", Amount: 1}},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Namespace: metav1.NamespaceDefault, Name: "none"},
		},
	}
	m.create(claim)
	return claim
}

func (m *measured) create(object client.Object) {
	m.Helper()
	if err := admin.Create(m.Context(), object); err != nil {
		m.Fatal(err)
	}
}

// await waits until a claim has this decision.
func (m *measured) await(claim *quotav1alpha1.ResourceClaim, status metav1.ConditionStatus) {
	m.Helper()
	m.until(claim, func() bool {
		return apimeta.IsStatusConditionPresentAndEqual(claim.Status.Conditions, quotav1alpha1.ConditionGranted, status)
	})
}

func (m *measured) until(object client.Object, done func() bool) {
	m.Helper()
	err := wait.PollUntilContextTimeout(m.Context(), 2*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		return done(), admin.Get(ctx, client.ObjectKeyFromObject(object), object)
	})
	if err != nil {
		m.Fatalf("%s: %v", object.GetName(), err)
	}
}

// BenchmarkGrantEnd reports how long after the end of a grant its capacity is out of the limit, at the latest: the
// controller writes the status after the ledger.
func BenchmarkGrantEnd(b *testing.B) {
	m := newMeasured(b)
	var late time.Duration
	for i := range b.N {
		const lasts = 3 * time.Second
		grant := &quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-ends-%d", m.name, i), Namespace: metav1.NamespaceDefault},
			Spec: quotav1alpha1.ResourceGrantSpec{
				ConsumerRef: platform.Consumer(m.name + "-quiet"),
				Allowances:  []quotav1alpha1.Allowance{{ResourceType: m.name + "/slots", Buckets: []quotav1alpha1.Bucket{{Amount: 5}}}},
				Period:      quotav1alpha1.Period{NotAfter: new(metav1.NewTime(time.Now().Add(lasts).Truncate(time.Second)))},
			},
		}
		m.create(grant)
		m.until(grant, func() bool {
			active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive)
			return active != nil && active.Reason == quotav1alpha1.ReasonExpired
		})
		late += time.Since(grant.Spec.NotAfter.Time)
	}
	b.ReportMetric(float64(late.Milliseconds())/float64(b.N), "late-ms")
	b.ReportMetric(0, "ns/op") // it would count the time before the end
}
