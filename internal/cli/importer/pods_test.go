package importer

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// amountIn evaluates how an imported policy counts a resource of an object.
func amountIn(t testing.TB, name corev1.ResourceName, object runtime.Object) int64 {
	t.Helper()
	m, err := measureOf(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	return evaluated(t, m, object)
}

// units has one base unit for all resource types.
type units string

// BaseUnit implements [policy.Units].
func (u units) BaseUnit(string) string { return string(u) }

func evaluated(t testing.TB, m measure, object runtime.Object) int64 {
	t.Helper()
	template := quotav1alpha1.ResourceRequestTemplate{ResourceType: "x", AmountExpression: m.amount}
	if m.amount == "" {
		template.Amount = 1
	}
	compiled, errs := policy.Compile(&quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: m.kind.Kind}},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{Spec: quotav1alpha1.ResourceClaimTemplateSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "a.example.com", Kind: "K", Name: "n"}, Requests: []quotav1alpha1.ResourceRequestTemplate{template},
		}}},
	}})
	if len(errs) > 0 {
		t.Fatalf("%s\n%v", m.amount, errs.ToAggregate())
	}
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	claim, err := compiled.Render(t.Context(), policy.Input{Object: fields, WithoutRequest: true, Units: units(m.unit.base)})
	if err != nil {
		t.Fatalf("%s\n%v", m.amount, err)
	}
	if claim == nil {
		return 0
	}
	return claim.Spec.Requests[0].Amount
}

// quantities are amounts of Pods.
var quantities = []string{"", "0", "1", "100m", "1500m", "2", "3", "64Mi", "1Gi"}

func resources(t *rapid.T, label string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu"} {
		if amount := rapid.SampledFrom(quantities).Draw(t, label+string(name)); amount != "" {
			all[name] = resource.MustParse(amount)
		}
	}
	return all
}

// anyPod draws a Pod with containers, init containers and sidecars in any order.
func anyPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "web"}}
	container := func(label string) corev1.Container {
		return corev1.Container{Name: label, Resources: corev1.ResourceRequirements{Requests: resources(t, label), Limits: resources(t, label+"-limit")}}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprint("c", i)))
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "inits") {
		c := container(fmt.Sprint("i", i))
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("120Mi")}
	}
	if rapid.Bool().Draw(t, "pod level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("5")}, Limits: corev1.ResourceList{"memory": resource.MustParse("5Gi")},
		}
	}
	if rapid.Bool().Draw(t, "deadline") {
		pod.Spec.ActiveDeadlineSeconds = new(int64(5))
	}
	pod.Spec.PriorityClassName = rapid.SampledFrom([]string{"", "high", "low"}).Draw(t, "class")
	pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
	return pod
}

// TestPodsCountAsInResourceQuotas compares the amounts of imported policies with those of the quota controller of Kubernetes.
func TestPodsCountAsInResourceQuotas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pod := anyPod(rt)
		want, err := quotacore.PodUsageFunc(pod, clock.RealClock{})
		if err != nil {
			rt.Fatal(err)
		}
		for _, name := range []corev1.ResourceName{
			"pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "requests.ephemeral-storage", "limits.ephemeral-storage",
			"hugepages-2Mi", "requests.hugepages-2Mi", "requests.example.com/gpu",
		} {
			quantity := want[name]
			amount := quantity.Value()
			if m, _ := measureOf(nil, name); m.unit == cores {
				amount = quantity.MilliValue()
			}
			if got := amountIn(t, name, pod); got != amount {
				content, _ := json.Marshal(pod)
				rt.Fatalf("%s: got %d, want %d of Pod %s", name, got, amount, content)
			}
		}
	})
}
