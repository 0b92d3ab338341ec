// Package resourcequota compares the policies of examples with the ResourceQuotas of Kubernetes, on objects without a
// server. The campaign of Kubernetes does so with whole lives of objects, in test/campaign/kubernetes.
package resourcequota

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/policy"
)

// policies are those of one file, with the base units of their resource types.
type policies struct {
	all   []*policy.ClaimPolicy
	kinds []string
	units map[string]string
}

// BaseUnit implements [policy.Units].
func (p *policies) BaseUnit(resourceType string) string { return p.units[resourceType] }

func load(t *testing.T, files ...string) *policies {
	t.Helper()
	loaded := &policies{units: map[string]string{}}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			var raw json.RawMessage
			if err := reader.Decode(&raw); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			loaded.add(t, raw)
		}
	}
	return loaded
}

// add adds a policy, or the unit of a registration.
func (p *policies) add(t *testing.T, raw []byte) {
	t.Helper()
	var registration quotav1alpha1.ResourceRegistration
	var claims quotav1alpha1.ClaimCreationPolicy
	if err := errors.Join(json.Unmarshal(raw, &registration), json.Unmarshal(raw, &claims)); err != nil {
		t.Fatal(err)
	}
	if registration.Kind == "ResourceRegistration" {
		p.units[registration.Spec.ResourceType] = registration.Spec.BaseUnit
		return
	}
	compiled, errs := policy.Compile(&claims)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	p.all, p.kinds = append(p.all, compiled), append(p.kinds, claims.Spec.Trigger.Resource.Kind)
}

// demandOf returns what an object demands, by the resource type without its group.
func (p *policies) demandOf(t rapid.TB, object runtime.Object) map[string]int64 {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	in := policy.Input{WithoutRequest: true, Units: p, NamespaceObject: map[string]any{"metadata": map[string]any{"labels": map[string]any{
		"quota.example.com/tenant": "a", "tenancy.example.com/team": "a", "hosting.example.com/project": "a",
	}}}}
	if err := json.Unmarshal(content, &in.Object); err != nil {
		t.Fatal(err)
	}

	demand := map[string]int64{}
	for i, kind := range p.kinds {
		if kind != object.GetObjectKind().GroupVersionKind().Kind {
			continue
		}
		matches, err := p.all[i].Matches(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if !matches {
			continue
		}

		requests, err := p.all[i].Requests(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range requests {
			_, name, _ := strings.Cut(request.ResourceType, "/")
			demand[name] += request.Amount
		}
	}
	return demand
}

// wantAsCore compares the demand of an object with what a ResourceQuota counts. names maps resource types to names in a
// ResourceQuota.
func (p *policies) wantAsCore(t rapid.TB, object runtime.Object, counted corev1.ResourceList, names map[string]corev1.ResourceName) {
	t.Helper()
	demand := p.demandOf(t, object)
	for resourceType, name := range names {
		quantity := counted[name]
		want := quantity.Value()
		if strings.HasSuffix(string(name), ".cpu") {
			want = quantity.MilliValue()
		}
		if got := demand[resourceType]; got != want {
			content, _ := json.Marshal(object)
			t.Fatalf("%s is %d, and a ResourceQuota counts %d of %s in\n%s", resourceType, got, want, name, content)
		}
	}
}

func same(names ...corev1.ResourceName) map[string]corev1.ResourceName {
	all := map[string]corev1.ResourceName{}
	for _, name := range names {
		all[string(name)] = name
	}
	return all
}

func TestPodsCountAsInResourceQuotas(t *testing.T) {
	for name, tt := range map[string]struct {
		*policies
		names map[string]corev1.ResourceName
	}{
		"resourcequota": {load(t, "2-registrations.yaml", "3-policies.yaml"),
			same("pods", "count/pods", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory")},
		"kubernetes": {load(t, "../kubernetes/2-registrations.yaml", "../kubernetes/3-policies.yaml"),
			map[string]corev1.ResourceName{"pods": "pods", "pod-cpu": "requests.cpu"}},
		"first hour": {load(t, "../first-hour/cluster/3-resources.yaml", "../first-hour/cluster/6-pods.yaml"),
			map[string]corev1.ResourceName{"cpu": "requests.cpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				pod := anyPod(rt)
				counted, err := core.PodUsageFunc(pod, clock.RealClock{})
				if err != nil {
					rt.Fatal(err)
				}
				tt.wantAsCore(rt, pod, counted, tt.names)
			})
		})
	}
}

func anyAmounts(t *rapid.T, label string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage"} {
		if amount := rapid.SampledFrom([]string{"", "0", "100m", "1500m", "2", "64Mi", "1Gi"}).Draw(t, label+string(name)); amount != "" {
			all[name] = resource.MustParse(amount)
		}
	}
	return all
}

// anyPod draws a Pod at any moment of its life.
func anyPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "web"}}
	container := func(name string) (corev1.Container, corev1.ContainerStatus) {
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: anyAmounts(t, name), Limits: anyAmounts(t, name+"-limit")}}
		status := corev1.ContainerStatus{Name: name}
		if rapid.Bool().Draw(t, name+"-runs") {
			status.Resources = &corev1.ResourceRequirements{Requests: anyAmounts(t, name+"-has"), Limits: anyAmounts(t, name+"-has-limit")}
			status.AllocatedResources = anyAmounts(t, name+"-allocated")
		}
		return c, status
	}

	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		c, status := container(fmt.Sprint("c", i))
		pod.Spec.Containers, pod.Status.ContainerStatuses = append(pod.Spec.Containers, c), append(pod.Status.ContainerStatuses, status)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "inits") {
		c, status := container(fmt.Sprint("i", i))
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers, pod.Status.InitContainerStatuses = append(pod.Spec.InitContainers, c), append(pod.Status.InitContainerStatuses, status)
	}

	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("120Mi")}
	}
	if rapid.Bool().Draw(t, "pod level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: anyAmounts(t, "pod"), Limits: anyAmounts(t, "pod-limit")}
	}

	pod.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{"", corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}).Draw(t, "phase")
	if grace := rapid.SampledFrom([]int64{-1, 0, 3600}).Draw(t, "grace"); grace >= 0 {
		deletion := metav1.NewTime(time.Now().Add(time.Duration(grace)*time.Second - time.Minute))
		pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp = &grace, &deletion
	}
	if reason := rapid.SampledFrom([]string{"", corev1.PodReasonInfeasible, corev1.PodReasonDeferred}).Draw(t, "resize"); reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
	}
	return pod
}

func TestVolumesCountAsInResourceQuotas(t *testing.T) {
	p := load(t, "2-registrations.yaml", "3-policies.yaml")
	sizes := []string{"1", "1500m", "8Gi", "9Gi"}
	rapid.Check(t, func(rt *rapid.T) {
		volume := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		volume.Spec.Resources.Requests = corev1.ResourceList{"storage": resource.MustParse(rapid.SampledFrom(sizes).Draw(rt, "size"))}
		volume.Spec.StorageClassName = rapid.SampledFrom([]*string{nil, new("gold"), new("silver")}).Draw(rt, "class")
		if rapid.Bool().Draw(rt, "expanded") {
			volume.Status.AllocatedResources = corev1.ResourceList{"storage": resource.MustParse(rapid.SampledFrom(sizes).Draw(rt, "allocated"))}
		}
		counted, err := core.NewPersistentVolumeClaimEvaluator(nil).Usage(volume)
		if err != nil {
			rt.Fatal(err)
		}
		p.wantAsCore(rt, volume, counted, same("persistentvolumeclaims", "requests.storage",
			"gold.storageclass.storage.k8s.io/persistentvolumeclaims", "gold.storageclass.storage.k8s.io/requests.storage"))
	})
}

func TestServicesCountAsInResourceQuotas(t *testing.T) {
	p := load(t, "2-registrations.yaml", "3-policies.yaml")
	types := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName}
	rapid.Check(t, func(rt *rapid.T) {
		service := &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		service.Spec.Type = rapid.SampledFrom(types).Draw(rt, "type")
		service.Spec.AllocateLoadBalancerNodePorts = rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(rt, "allocates")
		for range rapid.IntRange(0, 3).Draw(rt, "ports") {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Port: 1, NodePort: rapid.SampledFrom([]int32{0, 30000}).Draw(rt, "node port")})
		}
		counted, err := core.NewServiceEvaluator(nil).Usage(service)
		if err != nil {
			rt.Fatal(err)
		}
		p.wantAsCore(rt, service, counted, same("services", "services.loadbalancers", "services.nodeports"))
	})
}
