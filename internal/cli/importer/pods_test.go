package importer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"
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
	key := m.amount + m.unit.base
	if compiled[key] == nil {
		compiled[key] = compile(t, m)
	}
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = m.kind.GroupVersion().String(), m.kind.Kind
	claim, err := compiled[key].Render(t.Context(), policy.Input{Object: fields, WithoutRequest: true, Units: units(m.unit.base)})
	if err != nil {
		t.Fatalf("%s\n%v", m.amount, err)
	}
	if claim == nil {
		return 0
	}
	return claim.Spec.Requests[0].Amount
}

// compiled is a cache of compiled policies.
var compiled = map[string]*policy.ClaimPolicy{}

func compile(t testing.TB, m measure) *policy.ClaimPolicy {
	t.Helper()
	template := quotav1alpha1.ResourceRequestTemplate{ResourceType: "x", AmountExpression: m.amount}
	if m.amount == "" {
		template.Amount = 1
	}
	p, errs := policy.Compile(&quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{Resource: quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: m.kind.Kind}},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{Spec: quotav1alpha1.ResourceClaimTemplateSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "a.example.com", Kind: "K", Name: "n"}, Requests: []quotav1alpha1.ResourceRequestTemplate{template},
		}}},
	}})
	if len(errs) > 0 {
		t.Fatalf("%s\n%v", m.amount, errs.ToAggregate())
	}
	return p
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
	if grace := rapid.SampledFrom([]int64{-1, 0, 3600}).Draw(t, "grace"); grace >= 0 {
		pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp = &grace, new(metav1.NewTime(time.Now().Add(time.Duration(grace)*time.Second-time.Minute)))
	}
	resize(t, pod)
	return pod
}

// resize gives some containers other resources in the status than in the spec, as while a Pod is being resized.
func resize(t *rapid.T, pod *corev1.Pod) {
	statuses := func(containers []corev1.Container) (all []corev1.ContainerStatus) {
		for _, c := range containers {
			status := corev1.ContainerStatus{Name: c.Name}
			if rapid.Bool().Draw(t, c.Name+"-runs") {
				status.Resources = &corev1.ResourceRequirements{Requests: resources(t, c.Name+"-has"), Limits: resources(t, c.Name+"-has-limit")}
				status.AllocatedResources = resources(t, c.Name+"-allocated")
			}
			all = append(all, status)
		}
		return all
	}
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = statuses(pod.Spec.Containers), statuses(pod.Spec.InitContainers)
	if reason := rapid.SampledFrom([]string{"", corev1.PodReasonInfeasible, corev1.PodReasonDeferred}).Draw(t, "resize"); reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
	}
}

// TestPodsCountAsInResourceQuotas compares the amounts of imported policies with those of the quota controller of
// Kubernetes.
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

// TestScopesAreThoseOfResourceQuotas compares the Pods selected by imported scopes with the quota controller of
// Kubernetes.
func TestScopesAreThoseOfResourceQuotas(t *testing.T) {
	evaluator := quotacore.NewPodEvaluator(nil, clock.RealClock{})
	scopes := []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopeTerminating, Operator: corev1.ScopeSelectorOpExists},
		{ScopeName: corev1.ResourceQuotaScopeNotTerminating, Operator: corev1.ScopeSelectorOpExists},
		{ScopeName: corev1.ResourceQuotaScopeBestEffort, Operator: corev1.ScopeSelectorOpExists},
		{ScopeName: corev1.ResourceQuotaScopeNotBestEffort, Operator: corev1.ScopeSelectorOpExists},
		{ScopeName: corev1.ResourceQuotaScopeCrossNamespacePodAffinity, Operator: corev1.ScopeSelectorOpExists},
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpExists},
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpDoesNotExist},
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"high", "other"}},
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpNotIn, Values: []string{"high"}},
	}
	rapid.Check(t, func(rt *rapid.T) {
		pod := anyPod(rt)
		if rapid.Bool().Draw(rt, "best effort") {
			pod.Spec.Resources = nil
			for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range list {
					list[i].Resources = corev1.ResourceRequirements{}
				}
			}
		}
		term := corev1.PodAffinityTerm{TopologyKey: "zone"}
		if rapid.Bool().Draw(rt, "across") {
			term.Namespaces = []string{"other"}
		}
		switch rapid.IntRange(0, 2).Draw(rt, "affinity") {
		case 1:
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		case 2:
			pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}},
			}}
		}
		for _, scope := range scopes {
			matching, err := evaluator.MatchingScopes(pod, []corev1.ScopedResourceSelectorRequirement{scope})
			if err != nil {
				rt.Fatal(err)
			}
			condition, err := scopeCondition(scope)
			if err != nil {
				rt.Fatal(err)
			}
			got := evaluated(t, measure{kind: pods, unit: counted("pod"), amount: "(" + condition + ") ? 1 : 0"}, pod)
			if want := int64(len(matching)); got != want {
				content, _ := json.Marshal(pod)
				rt.Fatalf("%s %s %v: got %d, want %d for Pod %s", scope.ScopeName, scope.Operator, scope.Values, got, want, content)
			}
		}
	})
}

// TestOtherKindsCountAsInResourceQuotas does the same for volumes and Services.
func TestOtherKindsCountAsInResourceQuotas(t *testing.T) {
	gold := "gold"
	volume := func(size, expanded string, class *string, annotation string) *corev1.PersistentVolumeClaim {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class}}
		claim.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse(size)}
		if expanded != "" {
			claim.Status.AllocatedResources = corev1.ResourceList{"storage": resource.MustParse(expanded)}
		}
		if annotation != "" {
			claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: annotation}
		}
		return claim
	}
	service := func(kind corev1.ServiceType, allocates *bool) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
			Type: kind, AllocateLoadBalancerNodePorts: allocates, Ports: []corev1.ServicePort{{Port: 1}, {Port: 2, NodePort: 30000}},
		}}
	}
	volumeTypes := []corev1.ResourceName{
		"requests.storage", "persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
	}
	serviceTypes := []corev1.ResourceName{"services", "services.nodeports", "services.loadbalancers"}
	for name, tt := range map[string]struct {
		object runtime.Object
		by     quota.Evaluator
		types  []corev1.ResourceName
	}{
		"Volume":      {volume("8Gi", "", nil, ""), quotacore.NewPersistentVolumeClaimEvaluator(nil), volumeTypes},
		"Class":       {volume("8Gi", "", &gold, ""), quotacore.NewPersistentVolumeClaimEvaluator(nil), volumeTypes},
		"Annotation":  {volume("1500m", "", nil, "gold"), quotacore.NewPersistentVolumeClaimEvaluator(nil), volumeTypes},
		"Expanded":    {volume("8Gi", "9Gi", &gold, ""), quotacore.NewPersistentVolumeClaimEvaluator(nil), volumeTypes},
		"ClusterIP":   {service(corev1.ServiceTypeClusterIP, nil), quotacore.NewServiceEvaluator(nil), serviceTypes},
		"NodePort":    {service(corev1.ServiceTypeNodePort, nil), quotacore.NewServiceEvaluator(nil), serviceTypes},
		"Balancer":    {service(corev1.ServiceTypeLoadBalancer, nil), quotacore.NewServiceEvaluator(nil), serviceTypes},
		"WithoutNode": {service(corev1.ServiceTypeLoadBalancer, new(bool)), quotacore.NewServiceEvaluator(nil), serviceTypes},
	} {
		want, err := tt.by.Usage(tt.object)
		if err != nil {
			t.Fatal(err)
		}
		for _, resourceName := range tt.types {
			quantity := want[resourceName]
			if got := amountIn(t, resourceName, tt.object); got != quantity.Value() {
				t.Errorf("%s: got %d of %s, want %d", name, got, resourceName, quantity.Value())
			}
		}
	}
}

// TestLargePod makes sure that a Pod with many containers fits the bounds of a policy.
func TestLargePod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	for i := range 25 {
		c := corev1.Container{Name: fmt.Sprint("a-container-with-a-long-name-", i), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		if i < 15 {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
	}
	if got := amountIn(t, "requests.cpu", pod); got != 2500 {
		t.Errorf("got %d, want 2500", got)
	}
}

// TestResourceTypes checks that different limits have different resource types, which a registration permits.
func TestResourceTypes(t *testing.T) {
	priority := func(operator corev1.ScopeSelectorOperator, values ...string) []corev1.ScopedResourceSelectorRequirement {
		return []corev1.ScopedResourceSelectorRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values}}
	}
	long := strings.Repeat("long.", 50)
	seen := map[string]string{}
	for _, tt := range []struct {
		scopes []corev1.ScopedResourceSelectorRequirement
		name   corev1.ResourceName
		want   string // the name of an earlier version, if it was unambiguous
	}{
		{nil, "pods", "s/pods"},
		{scopesOf(&corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"NotTerminating", "BestEffort"}}), "pods", "s/besteffort+notterminating/pods"},
		{priority("Exists"), "pods", "s/priority-exists/pods"},
		{priority("In", "a-b"), "pods", "s/priority-in-a-b/pods"},
		{priority("NotIn", "a-b"), "pods", "s/priority-notin-a-b/pods"},
		{priority("In", "a", "b"), "pods", ""},
		{priority("In", "a", "b-c"), "pods", ""},
		{priority("In", "a-b", "c"), "pods", ""},
		{append(priority("In", "a"), priority("In", "b")...), "pods", "s/priority-in-a+priority-in-b/pods"},
		{priority("In", "a+priority-in-b"), "pods", ""},
		{priority("In", "a,b"), "pods", ""},
		{priority("In", long), "pods", ""},
		{priority("In", long), "requests.cpu", ""},
		{nil, corev1.ResourceName(long + "storageclass.storage.k8s.io/requests.storage"), ""},
		{nil, corev1.ResourceName(long + "storageclass.storage.k8s.io/persistentvolumeclaims"), ""},
	} {
		got, limit := account{tt.name, tt.scopes}.resourceType("s"), fmt.Sprint(tt.scopes, tt.name)
		if len(got) > 253 || strings.Contains(got, ",") || tt.want != "" && got != tt.want {
			t.Errorf("%s has the resource type %s, want %s", limit, got, tt.want)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s and %s have the same resource type %s", limit, other, got)
		}
		seen[got] = limit
	}
	if a, b := scopeName(priority("In", "a", "b")), scopeName(priority("In", "b", "a", "b")); a != b {
		t.Errorf("the same values have the names %s and %s", a, b)
	}
}
