package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/service"
)

const instanceMemory = "compute.datumapis.com/memory"

// testCompute runs the compute service of the examples with the permissions of its ServiceAccount. Its machines are
// Pods.
func testCompute(n *team) {
	const config = "../../../examples/compute/config"
	n.grant(map[string]int64{pods: 2, memory: 500 * mebibyte}) // the platform counts Pods as well
	n.kubectl(n.T, "", "apply", "--server-side", "-f", config+"/crds", "-f", config+"/1-platform.yaml", "-f", config+"/rbac.yaml")
	n.kubectl(n.T, "", "wait", "--for=condition=Established", "crd/instances.compute.datumapis.com", "crd/workloaddeployments.compute.datumapis.com")
	n.kubectl(n.T, "", "apply", "--server-side", "-f", config+"/2-registrations.yaml")
	n.kubectl(n.T, "", "label", "namespace", n.name, service.LabelProject+"="+n.name)
	n.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": "Project", "metadata": map[string]any{"name": n.name},
	}})
	project := quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: n.name}
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: "compute"}, Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: project}}
	for name, amount := range map[string]int64{"instances": 1, "vcpus": 2000, "memory": 300} {
		grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{ResourceType: "compute.datumapis.com/" + name, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}})
	}
	n.create(grant)
	n.runCompute()

	instance := func(name string) *computev1alpha1.Instance {
		i := &computev1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: name}, Spec: computev1alpha1.InstanceSpec{Image: "image", Resources: memoryOf(100)}}
		n.must(n.Create(n.Context(), i))
		return i
	}
	says := func(i *computev1alpha1.Instance, ready metav1.ConditionStatus, reason string) {
		n.Helper()
		n.eventually(func() error {
			n.must(n.Get(n.Context(), client.ObjectKeyFromObject(i), i))
			condition := apimeta.FindStatusCondition(i.Status.Conditions, computev1alpha1.ConditionReady)
			if condition == nil || condition.Status != ready || i.Status.Reason != reason {
				return fmt.Errorf("Instance %s is %q, and Ready is %+v, want %s %s", i.Name, i.Status.Reason, condition, ready, reason)
			}
			return nil
		})
	}
	first := instance("first")
	says(first, metav1.ConditionFalse, "Provisioning")
	second := instance("second")
	says(second, metav1.ConditionFalse, "QuotaExceeded")
	pod := &corev1.Pod{}
	n.must(n.Get(n.Context(), client.ObjectKey{Namespace: n.name, Name: "instance-first"}, pod))
	n.run(pod)
	says(first, metav1.ConditionTrue, "Ready")
	if first.Status.NetworkIP != pod.Status.PodIP || first.Status.Provider != "Pod" {
		n.Errorf("the status is %+v", first.Status)
	}

	// The service claims an increase before the Pod gets it, and returns a reduction once the Pod has less.
	size := int64(100)
	if n.resize(first, pod, 200) {
		size = 200
		n.wantAllocatedTo(project, size)
		n.report(pod)
		if n.resize(first, pod, 50) {
			n.wantAllocatedTo(project, size)
			n.report(pod)
			size = 50
		}
	}
	n.wantAllocatedTo(project, size)

	// Another image is another Pod.
	before := first.DeepCopy()
	first.Spec.Image = "image:2"
	n.must(n.Patch(n.Context(), first, client.MergeFrom(before)))
	says(first, metav1.ConditionFalse, "Restarting")
	n.must(n.Delete(n.Context(), pod, client.GracePeriodSeconds(0)))
	n.eventually(func() error {
		old := pod.UID
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.UID == old || pod.Spec.Containers[0].Image != "image:2" {
			return fmt.Errorf("there is no Pod with the other image yet: %v", err)
		}
		return nil
	})
	n.runOn(pod)
	says(first, metav1.ConditionTrue, "Ready")
	n.wantAllocatedTo(project, size)

	// The quota returns once the Pod is gone.
	n.must(n.Delete(n.Context(), first))
	n.eventually(func() error {
		if n.must(n.Get(n.Context(), client.ObjectKeyFromObject(pod), pod)); pod.DeletionTimestamp == nil {
			return errors.New("the Pod is not being deleted")
		}
		return nil
	})
	n.must(n.Get(n.Context(), client.ObjectKeyFromObject(first), first)) // it keeps its claim
	n.wantAllocatedTo(project, size)
	says(second, metav1.ConditionFalse, "QuotaExceeded")
	n.must(n.Delete(n.Context(), pod, client.GracePeriodSeconds(0)))
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKeyFromObject(first), first); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
	says(second, metav1.ConditionFalse, "Provisioning")
	n.wantAllocatedTo(project, 100)
}

// unresizable has a part of the message about a resize that an API server cannot do, by its minor version.
var unresizable = map[string]string{
	"1.32": "only Kubernetes 1.33 and later can",
	"1.33": "memory limits cannot be decreased",
}

// resize changes the memory of an Instance, and waits until its Pod asks for as much. If this version of Kubernetes
// cannot do it, resize waits for the message, takes the change back, and returns false.
func (n *team) resize(instance *computev1alpha1.Instance, pod *corev1.Pod, mebibytes int64) bool {
	n.Helper()
	request := func(mebibytes int64) {
		before := instance.DeepCopy()
		instance.Spec.Resources = memoryOf(mebibytes)
		n.must(n.Patch(n.Context(), instance, client.MergeFrom(before)))
	}
	memory := func() int64 { return pod.Spec.Containers[0].Resources.Requests.Memory().Value() / mebibyte }
	before, isResized := memory(), false
	request(mebibytes)
	n.eventually(func() error {
		n.must(n.Get(n.Context(), client.ObjectKeyFromObject(pod), pod))
		if isResized = memory() == mebibytes; isResized {
			return nil
		}
		n.must(n.Get(n.Context(), client.ObjectKeyFromObject(instance), instance))
		programmed := apimeta.FindStatusCondition(instance.Status.Conditions, computev1alpha1.ConditionProgrammed)
		if reason := unresizable[os.Getenv("KUBERNETES_MINOR")]; reason != "" && programmed != nil && strings.Contains(programmed.Message, reason) {
			return nil
		}
		return fmt.Errorf("the Pod asks for %d MiB, want %d: %+v", memory(), mebibytes, instance.Status)
	})
	if !isResized {
		request(before)
	}
	return isResized
}

func memoryOf(mebibytes int64) computev1alpha1.Resources {
	return computev1alpha1.Resources{VCPUs: resource.MustParse("1"), Memory: *resource.NewQuantity(mebibytes*mebibyte, resource.BinarySI)}
}

// runCompute runs the service as its ServiceAccount until the test ends.
func (n *team) runCompute() {
	n.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", n.Servers[0].ServiceAccountKubeconfig("compute", "compute"))
	n.must(err)
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, service.Options{Config: config, LeaderElectionNamespace: "compute", Log: logr.Discard()})
	}()
	n.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			n.Error(err)
		}
	})
}

// report reports the desired resources of a running Pod as its actual ones, like a kubelet.
func (n *team) report(pod *corev1.Pod) {
	n.Helper()
	n.must(n.Get(n.Context(), client.ObjectKeyFromObject(pod), pod))
	pod.Status.ContainerStatuses[0].Resources = pod.Spec.Containers[0].Resources.DeepCopy()
	n.must(n.Status().Update(n.Context(), pod))
}

// wantAllocatedTo waits until a Project has a charge of so many MiB.
func (n *team) wantAllocatedTo(project quotav1alpha1.ConsumerRef, mebibytes int64) {
	n.Helper()
	n.eventually(func() error {
		var list quotav1alpha1.AllowanceBucketList
		n.must(n.List(n.Context(), &list, client.MatchingFields{"spec.consumerRef.kind": project.Kind, "spec.consumerRef.name": project.Name, "spec.resourceType": instanceMemory}))
		if len(list.Items) != 1 || list.Items[0].Status.Allocated != mebibytes {
			return fmt.Errorf("the buckets are %+v, want %d MiB", list.Items, mebibytes)
		}
		return nil
	})
}
