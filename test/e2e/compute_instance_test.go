package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/service"
	"github.com/bursar/bursar/sdk/claims"
	"github.com/bursar/bursar/test/await"
)

// A resized Instance keeps its resources until there is quota for the increase. It returns a decrease once its machine
// no longer uses it.
func TestResizeOfInstances(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{2, 6000, 8 << 10})
	instance := p.create("one", resources("2", "4Gi"))
	p.isReady(instance)
	other := p.create("other", resources("3500m", "1Gi"))
	p.isReady(other)

	change(p, instance, func(i *computev1alpha1.Instance) { i.Spec.Resources = resources("4", "2Gi") })
	said := p.says(instance, claims.ConditionQuotaResizePending, metav1.ConditionTrue, "QuotaExceeded").Message
	if !strings.Contains(said, "compute.datumapis.com/vcpus quota of Project ") {
		t.Errorf("got %q", said)
	}
	p.says(instance, claims.ConditionQuotaGranted, metav1.ConditionTrue, "QuotaAvailable")
	has := func(want computev1alpha1.Resources) {
		t.Helper()
		await.NoError(p, converges, func() error {
			must(p, admin.Get(t.Context(), client.ObjectKeyFromObject(instance), instance))
			if got := instance.Status.Resources; got == nil || got.VCPUs.Cmp(want.VCPUs) != 0 || got.Memory.Cmp(want.Memory) != 0 {
				return fmt.Errorf("the machine has %+v, want %+v", got, want)
			}
			return nil
		})
	}
	has(resources("2", "2Gi"))
	must(p, admin.Delete(t.Context(), other))
	has(resources("4", "2Gi"))
	p.isReady(instance)
	await.NoError(p, converges, func() error { // the machine may grow by a decision newer than the one in the conditions
		must(p, admin.Get(t.Context(), client.ObjectKeyFromObject(instance), instance))
		if pending := apimeta.FindStatusCondition(instance.Status.Conditions, claims.ConditionQuotaResizePending); pending != nil {
			return fmt.Errorf("it says still %+v", pending)
		}
		return nil
	})
	change(p, instance, func(i *computev1alpha1.Instance) { i.Spec.Resources = resources("500m", "100M") })
	has(resources("500m", "100M"))
	p.uses(1, 500)
}

// An Instance loses its machine once somebody deletes its claim and no room is left. It gets another one once there is
// room.
func TestQuotaLost(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{1, 4000, 8 << 10})
	instance := p.create("one", resources("4", "1Gi"))
	p.isReady(instance)
	p.setGrant(amounts{0, 0, 0})
	p.isInForce() // until then, the service gets the quota back
	must(p, admin.DeleteAllOf(t.Context(), &quotav1alpha1.ResourceClaim{}, client.InNamespace(p.name)))
	p.says(instance, computev1alpha1.ConditionReady, metav1.ConditionFalse, "PendingQuota")
	p.uses(0, 0)
	if machines := p.machines(); len(machines) != 0 {
		t.Errorf("there are machines %v", machines)
	}
	p.setGrant(amounts{1, 4000, 8 << 10})
	p.isReady(instance)
}

// Nobody pays for Instances in a namespace without a Project, until it has one.
func TestNoProject(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{1, 4000, 8 << 10})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name + "-of-nobody"}}
	must(p, admin.Create(t.Context(), namespace))
	instance := &computev1alpha1.Instance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "one"}, Spec: computev1alpha1.InstanceSpec{Image: "image:1", Resources: resources("1", "1Gi")},
	}
	must(p, admin.Create(t.Context(), instance))
	said := p.says(instance, claims.ConditionQuotaGranted, metav1.ConditionFalse, "ValidationFailed").Message
	want := "Namespace testnoproject-of-nobody belongs to no Project, so nobody pays: have an administrator label it with resourcemanager.miloapis.com/project-name"
	if said != want {
		t.Errorf("got %q, want %q", said, want)
	}
	change(p, namespace, func(n *corev1.Namespace) { n.Labels[service.LabelProject] = p.name })
	p.isReady(instance)
	p.uses(1, 1000)

	// A machine's payer keeps paying, even after the label changes.
	second := &computev1alpha1.Instance{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "two"}, Spec: computev1alpha1.InstanceSpec{Image: "image:1", Resources: resources("1", "1Gi")},
	}
	must(p, admin.Create(t.Context(), second))
	p.says(second, claims.ConditionQuotaGranted, metav1.ConditionFalse, "QuotaExceeded")
	change(p, namespace, func(n *corev1.Namespace) { delete(n.Labels, service.LabelProject) })
	p.says(second, claims.ConditionQuotaGranted, metav1.ConditionFalse, "ValidationFailed")
	change(p, instance, func(i *computev1alpha1.Instance) { i.Spec.Resources = resources("2", "1Gi") })
	p.isReady(instance)
	p.uses(1, 2000)

	// A waiting Instance gets a new claim, for the Project in the label.
	change(p, namespace, func(n *corev1.Namespace) { n.Labels[service.LabelProject] = p.name })
	p.says(second, claims.ConditionQuotaGranted, metav1.ConditionFalse, "QuotaExceeded")
	t.Run("Other", func(t *testing.T) {
		other := newProject(t, amounts{1, 4000, 8 << 10})
		change(other, namespace, func(n *corev1.Namespace) { n.Labels[service.LabelProject] = other.name })
		other.isReady(second)
		other.uses(1, 1000)
	})
	p.isReady(instance)
	p.uses(1, 2000)
}

// A missing Project is for the platform to correct: the service advises nobody to buy more, claims nothing, and goes on
// once the Project exists.
func TestProjectThatDoesNotExist(t *testing.T) {
	t.Parallel()
	const ghost = "testghost"
	p := newProject(t, amounts{1, 1000, 1 << 10})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ghost, Labels: map[string]string{service.LabelProject: ghost}}}
	must(p, admin.Create(t.Context(), namespace))
	instance := &computev1alpha1.Instance{
		ObjectMeta: metav1.ObjectMeta{Namespace: ghost, Name: "one"}, Spec: computev1alpha1.InstanceSpec{Image: "image:1", Resources: resources("1", "1Gi")},
	}
	must(p, admin.Create(t.Context(), instance))
	said := p.says(instance, claims.ConditionQuotaGranted, metav1.ConditionFalse, "ValidationFailed").Message
	if want := "Project testghost, the payer of namespace testghost, does not exist: have an administrator create it"; !strings.Contains(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
	var all quotav1alpha1.ResourceClaimList
	must(p, admin.List(t.Context(), &all, client.InNamespace(ghost)))
	if len(all.Items) > 0 {
		t.Errorf("there are %d claims for a Project that does not exist", len(all.Items))
	}
	must(p, admin.Create(t.Context(), projectObject(ghost)))
	p.says(instance, claims.ConditionQuotaGranted, metav1.ConditionFalse, "QuotaExceeded")
}

// The service leaves a foreign object with the name of a machine alone, and the Instance reports it.
func TestMachineNameTaken(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{1, 4000, 8 << 10})
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "instance-one"}}
	must(p, admin.Create(t.Context(), foreign))
	instance := p.create("one", resources("1", "1Gi"))
	said := p.says(instance, computev1alpha1.ConditionReady, metav1.ConditionFalse, "ProvisioningFailed").Message
	want := "ConfigMap " + p.name + "/instance-one is in the way: it is not the machine of the Instance: delete it, or give the Instance another name"
	if said != want || instance.Status.Reason != "ProvisioningFailed" {
		t.Errorf("got %q, reason %s, want %q", said, instance.Status.Reason, want)
	}
	must(p, admin.Delete(t.Context(), foreign))
	p.isReady(instance)

	// An Instance can be deleted after somebody else took over its machine.
	machine := &corev1.ConfigMap{}
	must(p, admin.Get(t.Context(), client.ObjectKeyFromObject(foreign), machine))
	change(p, machine, func(m *corev1.ConfigMap) { m.OwnerReferences = nil })
	must(p, admin.Delete(t.Context(), instance))
	p.uses(0, 0)
}

// The API server rejects invalid Instances and gives the reason.
func TestInvalidInstances(t *testing.T) {
	t.Parallel()
	p := newProject(t, amounts{2, 4000, 8 << 10})
	existing := p.create("one", resources("1", "1Gi"))
	instance := func(r computev1alpha1.Resources) client.Object {
		return &computev1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "new"}, Spec: computev1alpha1.InstanceSpec{Image: "image:1", Resources: r}}
	}
	gpus := resources("1", "1Gi")
	gpus.GPUs = 65
	for name, tt := range map[string]struct {
		object client.Object
		want   string
	}{
		"no vCPUs":   {instance(resources("0", "1Gi")), `spec.resources.vcpus: Invalid value: "0": give an amount between 0 and 1M`},
		"less":       {instance(resources("-1", "1Gi")), "give an amount between 0 and 1M"},
		"much":       {instance(resources("1", "1Ei")), "give an amount between 0 and 1Pi"},
		"GPUs":       {instance(gpus), "should be less than or equal to 64"},
		"long name":  {&computev1alpha1.WorkloadDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: strings.Repeat("a", 59)}, Spec: computev1alpha1.WorkloadDeploymentSpec{Template: computev1alpha1.InstanceTemplate{Spec: computev1alpha1.InstanceSpec{Image: "i", Resources: resources("1", "1Gi")}}}}, "metadata.name may have 58 characters"},
		"short TTL":  {deploymentWith(p, computev1alpha1.ReplicaQuota{WaitingTTL: &metav1.Duration{Duration: 1}}), "give 1s or more"},
		"none waits": {deploymentWith(p, computev1alpha1.ReplicaQuota{WaitingReplicasMax: -1}), "should be greater than or equal to 1"},
		"no image":   {&computev1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "new"}, Spec: computev1alpha1.InstanceSpec{Resources: resources("1", "1Gi")}}, "spec.image"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := admin.Create(t.Context(), tt.object); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	p.isReady(existing)
	before := existing.DeepCopy()
	existing.Spec.Resources.GPUs = 1
	if err := admin.Patch(t.Context(), existing, client.MergeFrom(before)); err == nil || !strings.Contains(err.Error(), "resources.gpus cannot be changed") {
		t.Errorf("got %v", err)
	}
}

func deploymentWith(p *project, quota computev1alpha1.ReplicaQuota) *computev1alpha1.WorkloadDeployment {
	return &computev1alpha1.WorkloadDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "wld"},
		Spec:       computev1alpha1.WorkloadDeploymentSpec{Quota: quota, Template: computev1alpha1.InstanceTemplate{Spec: computev1alpha1.InstanceSpec{Image: "i", Resources: resources("1", "1Gi")}}},
	}
}
