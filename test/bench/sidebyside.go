package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// sideBySideRounds is the number of turns of each protection. With several turns, a machine with drifting speed
	// favours none.
	sideBySideRounds = 3
	// sideBySideRate is the number of creates a second offered to each protection, by sideBySideClients, after the
	// closed loops.
	sideBySideRate    = 100
	sideBySideClients = 50
	// coreQuota and free, each with a number, are the names of the namespaces with and without a core ResourceQuota.
	coreQuota = "core"
	free      = "free"
)

// protection is the kind of quota on a create.
type protection struct {
	name   string
	create func(connections []kubernetes.Interface, namespaces int) operation
}

// protections returns all protections, in the order of the comparison: each row of the result has its ratio to the
// first.
func (b *bench) protections() []protection {
	secrets := func(prefix string) func([]kubernetes.Interface, int) operation {
		return func(connections []kubernetes.Interface, namespaces int) operation {
			return b.secretsIn(connections, func(n int) string { return fmt.Sprint(prefix, "-", n%namespaces) })
		}
	}
	return []protection{
		{"unprotected", secrets(free)},
		{"core ResourceQuota", secrets(coreQuota)},
		{"Bursar", func(connections []kubernetes.Interface, namespaces int) operation {
			if namespaces == 1 {
				return b.creator(connections, plenty)
			}
			return b.spread(connections)
		}},
	}
}

// secretsIn creates Secrets, each under a name of its own.
func (b *bench) secretsIn(connections []kubernetes.Interface, namespace func(n int) string) operation {
	b.serial++
	serial := b.serial
	return func(ctx context.Context, client, n int) error {
		like := configMap(fmt.Sprintf("c%d-%d", serial, n))
		secret := &corev1.Secret{ObjectMeta: like.ObjectMeta, StringData: like.Data}
		_, err := connections[client].CoreV1().Secrets(namespace(n)).Create(ctx, secret, metav1.CreateOptions{})
		return err
	}
}

// measureSideBySide measures the same creates without quota, under a core ResourceQuota and under Bursar, in turns on
// one server.
//
// The first two create Secrets, and Bursar protects ConfigMaps: so no create pays for the protection of another. The
// core ResourceQuota is on count/secrets. The API server counts it like count/configmaps.
func (b *bench) measureSideBySide(ctx context.Context) error {
	if err := b.setUpSideBySide(ctx); err != nil {
		return err
	}
	fmt.Printf("\nside by side, %d turns of %s each\n", sideBySideRounds, b.duration)
	fmt.Println("\n| namespaces, clients | quota | creates/s | p50 | p99 | CPU each | ratio | API writes each | etcd writes each | bytes to etcd each |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, namespaces := range []int{1, manyConsumers} {
		for _, clients := range []int{1, 32} {
			loop := func(ctx context.Context, create operation) result { return b.load(ctx, clients, 0, create) }
			if err := b.takeTurns(ctx, fmt.Sprintf("%d, %d", namespaces, clients), namespaces, clients, loop); err != nil {
				return err
			}
		}
		offer := func(ctx context.Context, create operation) result {
			cpuBefore := cpuOf(b.system)
			r := b.offerAt(ctx, sideBySideRate, sideBySideClients, b.duration, create)[0]
			r.cpuBefore = cpuBefore
			return r
		}
		name := fmt.Sprintf("%d, %d at %d/s", namespaces, sideBySideClients, sideBySideRate)
		if err := b.takeTurns(ctx, name, namespaces, sideBySideClients, offer); err != nil {
			return err
		}
	}
	return nil
}

// setUpSideBySide makes the namespaces for this measurement only.
func (b *bench) setUpSideBySide(ctx context.Context) error {
	for n := range manyConsumers {
		for _, prefix := range []string{free, coreQuota} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(prefix, "-", n)}}
			if err := b.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
				return err
			}
		}
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "secrets", Namespace: fmt.Sprint(coreQuota, "-", n)},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				"count/secrets": *resource.NewQuantity(plentyLimit, resource.DecimalSI),
			}},
		}
		if err := b.client.Create(ctx, quota); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// cost is the cost of creates, in all turns of one protection.
type cost struct {
	result
	cpu time.Duration
	// writes are those by way of the API server, and revisions those to etcd.
	writes, revisions, bytes int
}

// takeTurns measures every protection in turns and prints a row for each.
func (b *bench) takeTurns(ctx context.Context, name string, namespaces, clients int, run func(context.Context, operation) result) error {
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	protections := b.protections()
	costs := make([]cost, len(protections))
	for range sideBySideRounds {
		for i, p := range protections {
			if err := b.takeTurn(ctx, &costs[i], func() result { return run(ctx, p.create(connections, namespaces)) }); err != nil {
				return fmt.Errorf("%s, %s: %w", name, p.name, err)
			}
		}
	}
	for i, p := range protections {
		fmt.Println(costs[i].row(name, p.name, costs[0]))
	}
	return nil
}

// takeTurn measures one turn, with all its consequences.
func (b *bench) takeTurn(ctx context.Context, c *cost, run func() result) error {
	etcd, err := openEtcd(b.system.directory())
	if err != nil {
		return err
	}
	defer etcd.Close() //nolint:errcheck // it was only used to ask
	began, err := revisionOf(ctx, etcd)
	if err != nil {
		return err
	}
	before, err := b.requests(ctx)
	if err != nil {
		return err
	}
	r := run()
	if r.failures > 0 {
		return fmt.Errorf("%d creates failed: %w", r.failures, r.failure)
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	c.cpu += cpuOf(b.system) - r.cpuBefore
	after, err := b.requests(ctx)
	if err != nil {
		return err
	}
	c.writes += writesIn(after) - writesIn(before)
	ended, err := revisionOf(ctx, etcd)
	if err != nil {
		return err
	}
	c.revisions += int(ended - began)
	written, err := bytesBetween(ctx, etcd, began, ended)
	c.bytes += written
	c.elapsed += r.elapsed
	c.latencies = append(c.latencies, r.latencies...)
	c.summarize(c.latencies)
	return err
}

// row is a line of the table. Its ratio is its CPU time for each create, relative to the other's.
func (c cost) row(name, protection string, other cost) string {
	cpuEach := c.cpu / time.Duration(max(c.count, 1))
	otherEach := other.cpu / time.Duration(max(other.count, 1))
	return fmt.Sprintf("| %s | %s | %.0f | %s | %s | %s | %.1f | %.2f | %.2f | %d |", name, protection, c.perSecond(), round(c.p50), round(c.p99), round(cpuEach),
		float64(cpuEach)/float64(max(otherEach, 1)), c.each(c.writes), c.each(c.revisions), c.bytes/max(c.count, 1))
}

// each is how many there were for each create.
func (c cost) each(n int) float64 { return float64(n) / float64(max(c.count, 1)) }

// writesIn is the number of answered requests of the API server that stored something.
func writesIn(requests map[string]int) (writes int) {
	for request, count := range requests {
		verb, resource, _ := strings.Cut(request, " ")
		isReview := strings.HasSuffix(resource, "reviews")
		if slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, verb) && !isReview {
			writes += count
		}
	}
	return writes
}

func revisionOf(ctx context.Context, etcd *clientv3.Client) (int64, error) {
	page, err := etcd.Get(ctx, registry, clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("ask etcd for its revision: %w", err)
	}
	return page.Header.Revision, nil
}

// bytesBetween is the number of bytes of keys and values written to etcd after one revision, up to another. It reads
// etcd's history afterwards, so counting costs nothing during the measurement.
func bytesBetween(ctx context.Context, etcd *clientv3.Client, began, end int64) (bytes int, err error) {
	if end == began {
		return 0, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	isLast := false
	// Each revision has an event.
	for page := range etcd.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(began+1)) {
		if err := page.Err(); err != nil {
			return 0, fmt.Errorf("read etcd's history: %w", err)
		}
		for _, event := range page.Events {
			if event.Kv.ModRevision > end {
				return bytes, nil
			}
			bytes += len(event.Kv.Key) + len(event.Kv.Value)
			if event.Kv.ModRevision == end {
				isLast = true
			}
		}
		if isLast {
			return bytes, nil
		}
	}
	return bytes, ctx.Err()
}
