package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
)

// usage is what is used, in base units, by name in a ResourceQuota. It has no zeros.
type usage map[corev1.ResourceName]int64

// baseUnits converts an amount of a ResourceQuota to the base units of examples/resourcequota.
func baseUnits(name corev1.ResourceName, amount resource.Quantity) int64 {
	if strings.HasSuffix(string(name), ".cpu") {
		return amount.MilliValue()
	}
	return amount.Value()
}

func usageOf(amounts corev1.ResourceList) usage {
	all := usage{}
	for name, amount := range amounts {
		if units := baseUnits(name, amount); units != 0 {
			all[name] = units
		}
	}
	return all
}

func tenantRef(name string) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "quota.example.com", Kind: "Tenant", Name: name}
}

func (l *life) eventually(check func() error) {
	l.Helper()
	await.NoError(l.T, soon, check)
}

// settle waits until the ResourceQuota and Bursar have counted what exists. The evaluators of Kubernetes say for both
// when that is, so neither is compared before its time.
func (l *life) settle() {
	l.Helper()
	looks := 0
	l.eventually(func() error {
		exists, err := l.evaluate(l.namespace(byCore))
		if err != nil {
			return err
		}
		other, err := l.evaluate(l.namespace(byBursar))
		if err != nil {
			return err
		}
		if !maps.Equal(exists, other) { // the Job controller is at work
			return fmt.Errorf("there is %v under the ResourceQuota, and %v under Bursar", exists, other)
		}
		looks++
		return errors.Join(l.wantCounted(exists, looks), l.wantObserved(l.tenant(), exists))
	})
}

// evaluate adds up what exists in a namespace, by the evaluators of Kubernetes.
func (l *life) evaluate(namespace string) (usage, error) {
	count := func(group, name, alias string) quota.Evaluator {
		return generic.NewObjectCountEvaluator(schema.GroupResource{Group: group, Resource: name}, nil, corev1.ResourceName(alias))
	}
	sum := corev1.ResourceList{}
	for list, by := range map[client.ObjectList]quota.Evaluator{
		&corev1.PodList{}:                   core.NewPodEvaluator(nil, clock.RealClock{}),
		&corev1.PersistentVolumeClaimList{}: core.NewPersistentVolumeClaimEvaluator(nil),
		&corev1.ServiceList{}:               core.NewServiceEvaluator(nil),
		&corev1.ConfigMapList{}:             count("", "configmaps", "configmaps"),
		&batchv1.JobList{}:                  count("batch", "jobs", ""),
	} {
		if err := l.List(l.Context(), list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, object := range objectsOf(list) {
			amounts, err := by.Usage(object)
			if err != nil {
				return nil, err
			}
			sum = quota.Add(sum, amounts)
		}
	}
	all := usageOf(sum)
	hard := hardOf(l.isTight)
	maps.DeleteFunc(all, func(name corev1.ResourceName, _ int64) bool {
		_, isLimited := hard[name]
		return !isLimited
	})
	return all, nil
}

func objectsOf(list client.ObjectList) []client.Object {
	items, err := apimeta.ExtractList(list)
	if err != nil {
		panic(err)
	}
	objects := make([]client.Object, 0, len(items))
	for _, item := range items {
		objects = append(objects, item.(client.Object))
	}
	return objects
}

func (l *life) usedByCore() (usage, error) {
	var native corev1.ResourceQuota
	if err := l.Get(l.Context(), client.ObjectKey{Namespace: l.namespace(byCore), Name: "native"}, &native); err != nil {
		return nil, err
	}
	if hard := hardOf(l.isTight); !quota.Equals(quota.Mask(native.Status.Hard, quota.ResourceNames(hard)), hard) {
		return nil, fmt.Errorf("the ResourceQuota has the limits %v, want %v", native.Status.Hard, hard)
	}
	used := native.Status.Used
	return usageOf(quota.Mask(used, quota.ResourceNames(hardOf(l.isTight)))), nil
}

// wantCounted returns nil if the ResourceQuota has counted what exists. Its controller leaves some changes to its next
// full count minutes later, such as fewer ports of a Service and most of a Pod's status. But it counts at once if the
// limits change, so every tenth look changes one that no object of the life needs.
func (l *life) wantCounted(exists usage, looks int) error {
	counted, err := l.usedByCore()
	if err != nil {
		return err
	}
	if maps.Equal(counted, exists) {
		return nil
	}
	if looks%10 == 0 {
		patch := fmt.Sprintf(`{"spec":{"hard":{"count/secrets":"%d"}}}`, 1000+looks)
		native := &corev1.ResourceQuota{}
		native.Namespace, native.Name = l.namespace(byCore), "native"
		err = l.Patch(l.Context(), native, client.RawPatch("application/merge-patch+json", []byte(patch)))
	}
	return errors.Join(err, fmt.Errorf("the ResourceQuota counts %v, and there is %v", counted, exists))
}

// wantObserved returns nil if a Tenant's ledger counts exactly this, and has nothing in flight.
func (l *life) wantObserved(tenant string, exists usage) error {
	var ledgers quotav1alpha1.ConsumerLedgerList
	if err := l.List(l.Context(), &ledgers); err != nil {
		return err
	}
	counted := usage{}
	for i := range ledgers.Items {
		ledger := &ledgers.Items[i].Spec
		if ledger.ConsumerRef != tenantRef(tenant) {
			continue
		}
		if len(ledger.Reservations) > 0 {
			return fmt.Errorf("%d requests of %s are in flight", len(ledger.Reservations), tenant)
		}
		for _, observed := range ledger.Observations {
			for _, demand := range observed.Demands {
				if demand.Amount != 0 {
					counted[corev1.ResourceName(strings.TrimPrefix(demand.ResourceType, "quota.example.com/"))] += demand.Amount
				}
			}
		}
	}
	if !maps.Equal(counted, exists) {
		return fmt.Errorf("Bursar counts %v for %s, and there is %v", counted, tenant, exists)
	}
	return nil
}
