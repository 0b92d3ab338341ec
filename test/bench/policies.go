package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

const (
	otherKinds      = 20
	policiesEach    = 50
	otherGroup      = "others.example.com"
	otherType       = "bench/others"
	secretType      = "bench/secrets"
	crowded         = "crowded"
	crowdedPolicies = 10
	policiesTimeout = 10 * time.Minute
)

// measureOtherPolicies compares protected creates without and with 1,000 policies for other kinds.
func (b *bench) measureOtherPolicies(ctx context.Context) error {
	fmt.Printf("\n%d policies for other kinds\n", otherKinds*policiesEach)
	if err := b.comparePolicies(ctx, "protected create, before"); err != nil {
		return err
	}
	registration := registrationOf(otherType, nil)
	for i := range otherKinds {
		kind := fmt.Sprint("Other", i)
		registration.Spec.ClaimingResources = append(registration.Spec.ClaimingResources, quotav1alpha1.ClaimingResource{APIGroup: otherGroup, Kind: kind})
		if err := b.client.Create(ctx, platform.Definition(otherGroup, kind, fmt.Sprintf("other%ds", i))); err != nil {
			return fmt.Errorf("define kind %s: %w", kind, err)
		}
	}
	objects := []client.Object{registration}
	for i := range otherKinds * policiesEach {
		policy := policyFor(fmt.Sprintf("other-%d", i), otherGroup+"/v1", fmt.Sprint("Other", i%otherKinds), "true", otherType, plenty)
		objects = append(objects, policy)
	}
	begin := time.Now()
	for _, object := range objects {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	fmt.Printf("  all written after %s\n", round(time.Since(begin)))
	if err := b.waitUsable(ctx, objects); err != nil {
		return err
	}
	fmt.Printf("  all effective after %s, %s\n", round(time.Since(begin)), memoryOf(b.system))
	return b.comparePolicies(ctx, "protected create, with them")
}

func (b *bench) comparePolicies(ctx context.Context, name string) error {
	for _, clients := range []int{1, 32} {
		connections, err := b.connect(clients)
		if err != nil {
			return err
		}
		fmt.Printf("  %d client(s)\n", clients)
		if err := b.report(ctx, name, clients, b.creator(connections, plenty)); err != nil {
			return err
		}
	}
	return nil
}

// measureManyPolicies measures creates under ten policies for one consumer, and how often they commit its ledger.
func (b *bench) measureManyPolicies(ctx context.Context) error {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crowded}},
		grantOf(crowded, resourceType, plentyLimit),
	}
	for i := range crowdedPolicies {
		condition := fmt.Sprintf("trigger.metadata.namespace == %q", crowded)
		objects = append(objects, policyFor(fmt.Sprintf("crowded-%d", i), "v1", "ConfigMap", condition, resourceType, crowded))
	}
	for _, object := range objects {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	if err := b.waitUsable(ctx, objects[1:]); err != nil {
		return err
	}
	connections, err := b.connect(1)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d policies for one kind and consumer\n", crowdedPolicies)
	create := b.creator(connections, crowded)
	const creates = 20
	commits := 0.0
	for n := range creates {
		before, err := b.ledgerWrites(ctx)
		if err != nil {
			return err
		}
		if err := create(ctx, 0, n); err != nil {
			return err
		}
		after, err := b.ledgerWrites(ctx) // before settling the claims, with commits of its own
		if err != nil {
			return err
		}
		commits += after.committed - before.committed
		if err := b.settle(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("    %.2f ledger commits for each create\n", commits/creates)
	return b.report(ctx, "protected create", 1, numberedFrom(creates, create))
}

// numberedFrom numbers the creates on from the earlier ones.
func numberedFrom(made int, create operation) operation {
	return func(ctx context.Context, client, n int) error { return create(ctx, client, made+n) }
}

// measureAdoption measures how fast existing objects count by a new policy, alone and beside as many creates as
// possible.
func (b *bench) measureAdoption(ctx context.Context) error {
	const clients = 32
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	fmt.Printf("\nadoption of %d existing objects in each of two rounds\n", b.adopted)
	objects := []client.Object{registrationOf(secretType, []quotav1alpha1.ClaimingResource{{Kind: "Secret"}}), grantOf(plenty, secretType, 1)}
	for _, object := range objects {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	for _, namespace := range []string{"old-1", "old-2"} {
		if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if r := b.load(ctx, clients, b.adopted, b.secrets(connections, namespace)); r.failures > 0 {
			return fmt.Errorf("create objects to adopt: %w", r.failure)
		}
	}
	begin, cpu := time.Now(), cpuOf(b.system)
	adopted, err := b.adopt(ctx, "old-1")
	if err != nil {
		return err
	}
	fmt.Printf("    alone                    %7.0f/s, server CPU %s each\n",
		float64(adopted)/time.Since(begin).Seconds(), round((cpuOf(b.system)-cpu)/time.Duration(adopted)))
	alone := b.loadSettled(ctx, clients, b.creator(connections, plenty))
	fmt.Printf("    protected create, alone  %s\n", alone)
	if err := b.settle(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	begin = time.Now()
	go func() {
		var err error
		adopted, err = b.adopt(ctx, "old-2")
		done <- err
	}()
	create := b.creator(connections, plenty)
	var beside result
	for made := 0; ; made += 1 << 24 {
		r := b.load(ctx, clients, 0, numberedFrom(made, create))
		beside.count, beside.elapsed, beside.failures = beside.count+r.count, beside.elapsed+r.elapsed, beside.failures+r.failures
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			fmt.Printf("    beside creates           %7.0f/s\n", float64(adopted)/time.Since(begin).Seconds())
			fmt.Printf("    protected create, beside %7.0f/s, %.0f %% of alone (%d failed)\n",
				beside.perSecond(), 100*beside.perSecond()/alone.perSecond(), beside.failures)
			return b.settle(ctx)
		default:
		}
	}
}

// adopt puts the Secrets of a namespace under quota and waits until all count.
func (b *bench) adopt(ctx context.Context, namespace string) (int64, error) {
	policy := policyFor(namespace, "v1", "Secret", fmt.Sprintf("trigger.metadata.namespace == %q", namespace), secretType, plenty)
	if err := b.client.Create(ctx, policy); err != nil {
		return 0, err
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, policiesTimeout, true, func(ctx context.Context) (bool, error) {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return false, err
		}
		adoption := policy.Status.Adoption
		return adoption != nil && adoption.State == quotav1alpha1.AdoptionComplete, nil
	})
	if err != nil {
		return 0, fmt.Errorf("wait for adoption by policy %s, which is at %+v: %w", namespace, policy.Status.Adoption, err)
	}
	if got := policy.Status.Adoption.Adopted; got != int64(b.adopted) {
		return 0, fmt.Errorf("policy %s adopted %d objects of %d: %s", namespace, got, b.adopted, policy.Status.Adoption.Message)
	}
	return policy.Status.Adoption.Adopted, nil
}

// policyFor is a policy with a cost of one for each object of a kind under a condition.
func policyFor(name, apiVersion, kind, condition, resourceType, consumer string) *quotav1alpha1.ClaimCreationPolicy {
	return &quotav1alpha1.ClaimCreationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: quotav1alpha1.ClaimCreationPolicySpec{
			Trigger: quotav1alpha1.ClaimTrigger{
				Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: apiVersion, Kind: kind},
				Conditions: []quotav1alpha1.ConditionExpression{{Expression: condition}},
			},
			Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
				Metadata: quotav1alpha1.ObjectTemplateMetadata{Name: name + "-{{.trigger.metadata.name}}"},
				Spec: quotav1alpha1.ResourceClaimTemplateSpec{
					ConsumerRef: platform.Consumer(consumer),
					Requests:    []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, Amount: 1}},
				},
			}},
		},
	}
}
