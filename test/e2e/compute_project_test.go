package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/service"
	"github.com/bursar/bursar/test/await"
)

const (
	computeExample = "../../examples/compute/"
	// converges is longer than the service needs for hundreds of replicas on a busy machine.
	converges = 2 * time.Minute
)

// installCompute applies the objects that an administrator applies before the service starts.
func installCompute(ctx context.Context) error {
	files, err := filepath.Glob(computeExample + "config/crds/*.yaml")
	if err != nil {
		return err
	}
	for _, name := range append(files, computeExample+"config/1-platform.yaml", computeExample+"config/2-registrations.yaml", computeExample+"config/3-tiers.yaml", computeExample+"config/rbac.yaml") {
		if err := apply(ctx, name); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, converges, true, func(ctx context.Context) (bool, error) {
		var none computev1alpha1.WorkloadDeploymentList
		err := errors.Join(admin.List(ctx, &computev1alpha1.InstanceList{}), admin.List(ctx, &none))
		return err == nil, nil
	})
}

// apply applies the objects in a file.
func apply(ctx context.Context, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it is only read
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// project is a Project with a namespace.
type project struct {
	*testing.T
	name  string
	grant *quotav1alpha1.ResourceGrant
}

// amounts are the limits of a Project.
type amounts struct{ instances, vcpus, memory int64 }

// newProject makes a Project with these limits, in base units, and nothing from its tier.
func newProject(t *testing.T, granted amounts) *project {
	t.Helper()
	p := &project{T: t, name: nameOf(t)}
	must(p, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{service.LabelProject: p.name}}}))
	must(p, admin.Create(t.Context(), projectObject(p.name)))
	p.grant = &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "grant"}, Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: p.consumer()}}
	p.grant.Spec.Allowances = granted.allowances()
	must(p, admin.Create(t.Context(), p.grant))
	await.NoError(p, converges, func() error {
		must(p, admin.Get(t.Context(), client.ObjectKeyFromObject(p.grant), p.grant))
		if !apimeta.IsStatusConditionTrue(p.grant.Status.Conditions, quotav1alpha1.ConditionActive) {
			return fmt.Errorf("the grant is not active: %+v", p.grant.Status.Conditions)
		}
		return nil
	})
	return p
}

// projectObject is a Project without grants from its tier.
func projectObject(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"tier": "custom"}}}
	object.SetAPIVersion("resourcemanager.miloapis.com/v1alpha1")
	object.SetKind("Project")
	object.SetName(name)
	return object
}

func (a amounts) allowances() []quotav1alpha1.Allowance {
	allowance := func(name string, amount int64) quotav1alpha1.Allowance {
		return quotav1alpha1.Allowance{ResourceType: "compute.datumapis.com/" + name, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}
	}
	return []quotav1alpha1.Allowance{allowance("instances", a.instances), allowance("vcpus", a.vcpus), allowance("memory", a.memory)}
}

func (p *project) consumer() quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{APIGroup: "resourcemanager.miloapis.com", Kind: "Project", Name: p.name}
}

// setGrant grants other amounts.
func (p *project) setGrant(granted amounts) {
	p.Helper()
	before := p.grant.DeepCopy()
	p.grant.Spec.Allowances = granted.allowances()
	must(p, admin.Patch(p.Context(), p.grant, client.MergeFrom(before)))
}

// isInForce waits until the ledger has the grant as it is.
func (p *project) isInForce() {
	p.Helper()
	await.NoError(p, converges, func() error {
		var grant quotav1alpha1.ResourceGrant
		if err := admin.Get(p.Context(), client.ObjectKeyFromObject(p.grant), &grant); err != nil {
			return err
		}
		active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive)
		if active == nil || active.ObservedGeneration != grant.Generation {
			return fmt.Errorf("the grant of generation %d says %+v", grant.Generation, active)
		}
		return nil
	})
}

// resources are so many vCPUs and so much memory.
func resources(vcpus, memory string) computev1alpha1.Resources {
	return computev1alpha1.Resources{VCPUs: resource.MustParse(vcpus), Memory: resource.MustParse(memory)}
}

// create makes an Instance.
func (p *project) create(name string, r computev1alpha1.Resources) *computev1alpha1.Instance {
	p.Helper()
	instance := &computev1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: name}, Spec: computev1alpha1.InstanceSpec{Image: "image:1", Resources: r}}
	must(p, admin.Create(p.Context(), instance))
	return instance
}

// deploy makes a WorkloadDeployment.
func (p *project) deploy(replicas int32, r computev1alpha1.Resources, quota computev1alpha1.ReplicaQuota) *computev1alpha1.WorkloadDeployment {
	p.Helper()
	deployment := &computev1alpha1.WorkloadDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.name, Name: "wld"},
		Spec: computev1alpha1.WorkloadDeploymentSpec{
			Replicas: &replicas, Quota: quota, Template: computev1alpha1.InstanceTemplate{Spec: computev1alpha1.InstanceSpec{Image: "image:1", Resources: r}},
		},
	}
	must(p, admin.Create(p.Context(), deployment))
	return deployment
}

// says waits until a condition of an Instance has a status and a reason.
func (p *project) says(instance *computev1alpha1.Instance, kind string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	p.Helper()
	var condition *metav1.Condition
	await.NoError(p, converges, func() error {
		if err := admin.Get(p.Context(), client.ObjectKeyFromObject(instance), instance); err != nil {
			return err
		}
		condition = apimeta.FindStatusCondition(instance.Status.Conditions, kind)
		if condition == nil || condition.Status != status || condition.Reason != reason || condition.ObservedGeneration != instance.Generation {
			return fmt.Errorf("%s is %+v, want %s %s", kind, condition, status, reason)
		}
		return nil
	})
	return condition
}

// isReady waits until an Instance is.
func (p *project) isReady(instance *computev1alpha1.Instance) {
	p.Helper()
	p.says(instance, computev1alpha1.ConditionReady, metav1.ConditionTrue, "Simulated")
}

// counts waits until a WorkloadDeployment has so many replicas with quota, ready, blocked and expired. It returns the
// message of ReplicasReady.
func (p *project) counts(deployment *computev1alpha1.WorkloadDeployment, granted, ready, blocked, expired int32) (message string) {
	p.Helper()
	await.NoError(p, converges, func() error {
		if err := admin.Get(p.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		s := deployment.Status
		got, want := []int32{s.Replicas, s.ReadyReplicas, s.QuotaBlockedReplicas, s.QuotaExpiredReplicas}, []int32{granted, ready, blocked, expired}
		condition := apimeta.FindStatusCondition(s.Conditions, computev1alpha1.ConditionReplicasReady)
		if fmt.Sprint(got) != fmt.Sprint(want) || s.ObservedGeneration != deployment.Generation {
			return fmt.Errorf("replicas with quota, ready, blocked, given up: got %v, want %v (%+v)", got, want, condition)
		}
		message = string(condition.Status) + " " + condition.Reason + ": " + condition.Message
		return nil
	})
	return message
}

// instances are the Instances of the Project.
func (p *project) instances() []computev1alpha1.Instance {
	p.Helper()
	var list computev1alpha1.InstanceList
	must(p, admin.List(p.Context(), &list, client.InNamespace(p.name)))
	return list.Items
}

// machines are the names of the simulated machines.
func (p *project) machines() (names []string) {
	p.Helper()
	var list corev1.ConfigMapList
	must(p, admin.List(p.Context(), &list, client.InNamespace(p.name)))
	for _, note := range list.Items {
		if metav1.GetControllerOf(&note) != nil {
			names = append(names, note.Name)
		}
	}
	return names
}

// uses waits until the Project uses so many Instances and millicores, by its buckets.
func (p *project) uses(instances, vcpus int64) {
	p.Helper()
	await.NoError(p, converges, func() error {
		used := map[string]int64{}
		var list quotav1alpha1.AllowanceBucketList
		if err := admin.List(p.Context(), &list, client.MatchingFields{"spec.consumerRef.name": p.name}); err != nil {
			return err
		}
		for _, bucket := range list.Items {
			used[bucket.Spec.ResourceType] = bucket.Status.Allocated
		}
		if used["compute.datumapis.com/instances"] != instances || used["compute.datumapis.com/vcpus"] != vcpus {
			return fmt.Errorf("got %v, want %d Instances and %d millicores", used, instances, vcpus)
		}
		return nil
	})
}
