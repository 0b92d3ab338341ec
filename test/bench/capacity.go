package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/platform"
)

const (
	// standingSpace is the namespace of the objects of standing consumers. Each has a label with its consumer.
	standingSpace = "standing"
	consumerLabel = "consumer"
	// crowd is the single consumer with many claims.
	crowd = "crowd"
	// capacityRestarts is the number of measured restarts.
	capacityRestarts = 3
	// capacityRate is the number of creates a second under load without another given rate, and capacityClients make
	// them.
	capacityRate    = 20
	capacityClients = 50
	// firstCreates is how many creates there are right after a restart.
	firstCreates = 2000
	// capacityTimeout bounds the wait until everything is right again after a start.
	capacityTimeout = 15 * time.Minute
)

// standing is the name of one of the consumers in measurements of capacity. All are equally long.
func standing(n int) string { return fmt.Sprintf("standing-%06d", n) }

// standingSize is how many consumers there are, with how many claims in total, and how many one more
// consumer has alone.
type standingSize struct{ consumers, claims, crowd int }

// standingMax is how many names of one length there are.
const standingMax = 1_000_000

// check returns an error if it cannot make so many.
func (s standingSize) check() error {
	if s.consumers > standingMax {
		return fmt.Errorf("-consumers %d: %d at most", s.consumers, standingMax)
	}
	if s.claims < s.consumers {
		return fmt.Errorf("-consumers %d -standing %d: give each consumer one claim at least", s.consumers, s.claims)
	}
	return nil
}

// measureCapacity measures a start, memory, creates and the size of etcd's database, with many consumers with many
// claims in total, and one consumer with many claims of its own.
func (b *bench) measureCapacity(ctx context.Context, size standingSize) error {
	if b.rate == 0 {
		b.rate = capacityRate
	}
	if err := b.makeStanding(ctx, size.claims/size.consumers); err != nil {
		return err
	}
	if err := b.makeCrowd(ctx, size.crowd); err != nil {
		return err
	}
	if err := b.cloneStanding(ctx, size.consumers); err != nil {
		return err
	}
	if err := b.measureStart(ctx, size.consumers); err != nil {
		return err
	}
	for restart := range capacityRestarts {
		if err := b.measureRestart(ctx); err != nil {
			return err
		}
		if err := b.openClient(); err != nil {
			return err
		}
		if err := b.measureFirst(ctx, restart); err != nil {
			return err
		}
	}
	fmt.Println("\n| | | resident | at most so far | Go heap |\n| --- | --- | --- | --- | --- |")
	if err := b.printMemory(ctx, "right after that"); err != nil {
		return err
	}
	if err := waitFor(ctx, b.duration); err != nil {
		return err
	}
	if err := b.printMemory(ctx, fmt.Sprintf("at rest for %s", b.duration)); err != nil {
		return err
	}
	if err := b.measureStanding(ctx, size.consumers); err != nil {
		return err
	}
	if err := b.measurePages(ctx); err != nil {
		return err
	}
	return b.printSizes(ctx)
}

// makeStanding makes the first standing consumer, as Bursar and its clients do it.
func (b *bench) makeStanding(ctx context.Context, claims int) error {
	policy := policyFor(standingSpace, "v1", "ConfigMap", fmt.Sprintf("trigger.metadata.namespace == %q", standingSpace), resourceType,
		fmt.Sprintf("{{index .trigger.metadata.labels %q}}", consumerLabel))
	policy.Spec.Claims = b.claims
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: standingSpace}}); err != nil {
		return err
	}
	objects := []client.Object{policy, grantOf(standing(0), resourceType, plentyLimit), grantOf(crowd, resourceType, plentyLimit)}
	for _, object := range objects {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	if err := b.waitUsable(ctx, objects); err != nil {
		return err
	}
	return b.createFor(ctx, standing(0), claims)
}

// makeCrowd makes a consumer with many claims.
func (b *bench) makeCrowd(ctx context.Context, claims int) error {
	if claims == 0 {
		return nil
	}
	begin := time.Now()
	if err := b.createFor(ctx, crowd, claims); err != nil {
		return err
	}
	fmt.Printf("\n1 consumer with %d claims: made in %s\n", claims, round(time.Since(begin)))
	return nil
}

// createFor creates so many objects of a consumer, and waits until its ledger and buckets are right.
func (b *bench) createFor(ctx context.Context, consumer string, objects int) error {
	const clients = 16
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	create := createOf(connections, func(int) string { return consumer }, consumer)
	if r := b.load(ctx, clients, objects, create); r.failures > 0 {
		return fmt.Errorf("create the objects of consumer %s: %w", consumer, r.failure)
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	ref := platform.Consumer(consumer)
	bucket, effective := &quotav1alpha1.AllowanceBucket{}, &quotav1alpha1.EffectiveResourceGrant{}
	bucket.Name, effective.Name = naming.Bucket(ref, resourceType, nil), naming.EffectiveGrant(ref, resourceType)
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, capacityTimeout, true, func(ctx context.Context) (bool, error) {
		for _, object := range []client.Object{bucket, effective} {
			object.SetNamespace(systemSpace)
			if err := b.client.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
				return false, err
			}
		}
		return bucket.Status.Allocated == int64(objects) && effective.Status.TotalAllocated == int64(objects), nil
	})
}

// createOf creates protected objects of standing consumers, under names with a prefix.
func createOf(connections []kubernetes.Interface, consumer func(n int) string, prefix string) operation {
	return func(ctx context.Context, client, n int) error {
		object := configMap(fmt.Sprintf("%s-%06d", prefix, n))
		object.Labels = map[string]string{consumerLabel: consumer(n)}
		_, err := connections[client].CoreV1().ConfigMaps(standingSpace).Create(ctx, object, metav1.CreateOptions{})
		return err
	}
}

// cloneStanding makes the other standing consumers.
func (b *bench) cloneStanding(ctx context.Context, consumers int) error {
	var cloned time.Duration
	var started time.Time
	err := b.system.withoutQuota(ctx, func() error {
		etcd, err := openEtcd(b.system.directory())
		if err != nil {
			return err
		}
		defer etcd.Close() //nolint:errcheck // it has answered
		begin := time.Now()
		err = cloneConsumer(ctx, etcd, consumers)
		cloned, started = time.Since(begin), time.Now()
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d consumers: made in %s, and ready after %s\n", consumers, round(cloned), round(time.Since(started)))
	return b.openClient()
}

// printMemory prints the memory of every process.
func (b *bench) printMemory(ctx context.Context, when string) error {
	for _, p := range b.system.processes() {
		page, err := p.metrics(ctx)
		if err != nil {
			return err
		}
		now, peak := p.memory()
		fmt.Printf("| %s | %s | %d MiB | %d MiB | %.0f MiB |\n", when, p.name, now, peak, valueIn(page, "go_memstats_heap_alloc_bytes")/(1<<20))
	}
	return nil
}

// measureFirst creates as fast as it can for one consumer right after a start, before the claims are listed, and prints
// the number of failed creates. There are more creates than the ledger takes reservations in flight, so Bursar has to
// make and settle their claims meanwhile.
func (b *bench) measureFirst(ctx context.Context, restart int) error {
	connections, err := b.connect(capacityClients)
	if err != nil {
		return err
	}
	create := createOf(connections, func(int) string { return standing(0) }, fmt.Sprintf("first-%d", restart))
	r := b.load(ctx, capacityClients, firstCreates, create)
	fmt.Printf("  %d creates for one consumer right after that, of which %d failed:\n  %s\n", firstCreates, r.failures, r)
	return nil
}

// measureStanding offers creates for all standing consumers, for one of them, and for the one with many claims, in
// turns. Then it prints the memory.
func (b *bench) measureStanding(ctx context.Context, consumers int) error {
	connections, err := b.connect(capacityClients)
	if err != nil {
		return err
	}
	operations := []operation{
		createOf(connections, func(n int) string { return standing(n % consumers) }, "load-spread"),
		createOf(connections, func(int) string { return standing(0) }, "load-one"),
		createOf(connections, func(int) string { return crowd }, "load-crowd"),
		b.unprotected(connections),
	}
	results := b.offer(ctx, capacityClients, b.duration, operations...)
	if err := b.settle(ctx); err != nil {
		return err
	}
	if err := b.printMemory(ctx, fmt.Sprintf("after %s of creates", b.duration)); err != nil {
		return err
	}
	fmt.Printf("\n%g creates/s of each sort, at random times, offered by %d clients for %s\n\n", b.rate, capacityClients, b.duration)
	printRateHead()
	for i, name := range []string{"protected create, every consumer in turn", "protected create, one consumer with few claims", "protected create, the consumer with many", "unprotected create"} {
		printRow(name, results[i])
	}
	return nil
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
