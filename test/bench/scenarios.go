package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// bench is one run of all measurements.
type bench struct {
	clients  []int
	existing []int
	measured []measurement
	duration time.Duration
	rate     float64
	adopted  int
	memory   int
	binary   string
	// claims is the mode of the policies.
	claims quotav1alpha1.ClaimsMode

	system system
	admin  *rest.Config
	client client.WithWatch
	serial int
}

// measureCreates measures creates with more and more claims in the ledgers.
func (b *bench) measureCreates(ctx context.Context) error {
	for _, existing := range b.existing {
		if err := b.fill(ctx, existing); err != nil {
			return err
		}
		count, err := b.claimCount(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("\n%d claims exist, %s\n", count, memoryOf(b.system))
		for _, clients := range b.clients {
			if err := b.compare(ctx, clients); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureRestart restarts a process that enforces quota, with all present claims. The CPU time is from the request to
// end until the process is ready again.
func (b *bench) measureRestart(ctx context.Context) error {
	count, err := b.claimCount(ctx)
	if err != nil {
		return err
	}
	before := map[pid]time.Duration{}
	for _, p := range b.system.processes() {
		before[p.pid] = p.cpu()
	}
	took, err := b.system.restart(ctx)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	var used []string
	for _, p := range b.system.processes() {
		used = append(used, fmt.Sprintf("%s %s", p.name, round(p.cpu()-before[p.pid])))
	}
	fmt.Printf("\nrestart with %d claims: ready after %s\n  CPU time: %s\n  %s\n",
		count, round(took), strings.Join(used, ", "), memoryOf(b.system))
	return nil
}

// compare measures creates side by side, with one number of clients.
func (b *bench) compare(ctx context.Context, clients int) error {
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	fmt.Printf("  %d client(s)\n", clients)
	if err := b.report(ctx, "unprotected create", clients, b.unprotected(connections)); err != nil {
		return err
	}
	if err := b.reportGrants(ctx, "protected create", clients, b.creator(connections, plenty)); err != nil {
		return err
	}
	if err := b.reportGrants(ctx, fmt.Sprintf("the same, %d consumers", manyConsumers), clients, b.spread(connections)); err != nil {
		return err
	}
	if err := b.report(ctx, "denial", clients, b.denied(connections)); err != nil {
		return err
	}
	grants, err := b.watchGrants(ctx)
	if err != nil {
		return err
	}
	defer grants.stop()
	return b.reportGrants(ctx, "direct claim to Granted", clients, grants.directClaim)
}

// report measures one operation and prints its result.
func (b *bench) report(ctx context.Context, name string, clients int, operate operation) error {
	fmt.Printf("    %-24s %s\n", name, b.loadSettled(ctx, clients, operate))
	return b.settle(ctx)
}

// reportGrants measures an operation with grants, and prints also the writes of ledgers for it.
func (b *bench) reportGrants(ctx context.Context, name string, clients int, operate operation) error {
	before, err := b.ledgerWrites(ctx)
	if err != nil {
		return err
	}
	r := b.loadSettled(ctx, clients, operate)
	fmt.Printf("    %-24s %s\n", name, r)
	if err := b.settle(ctx); err != nil {
		return err
	}
	after, err := b.ledgerWrites(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("    %-24s %s\n", "", after.since(before, r.count))
	return nil
}

// openClient makes the client of this program's own requests.
func (b *bench) openClient() error {
	var err error
	if b.admin, err = adminOf(b.system.directory()); err != nil {
		return err
	}
	b.client, err = client.NewWithWatch(ownConnection(b.admin), client.Options{Scheme: newScheme()})
	return err
}

func (b *bench) connect(clients int) ([]kubernetes.Interface, error) {
	connections := make([]kubernetes.Interface, clients)
	for i := range connections {
		var err error
		if connections[i], err = kubernetes.NewForConfig(ownConnection(b.admin)); err != nil {
			return nil, err
		}
		if _, err := connections[i].Discovery().ServerVersion(); err != nil {
			return nil, err
		}
	}
	return connections, nil
}

// creator creates ConfigMaps in a namespace, each under a name of its own.
func (b *bench) creator(connections []kubernetes.Interface, namespace string) operation {
	b.serial++
	serial := b.serial
	return func(ctx context.Context, client, n int) error {
		_, err := connections[client].CoreV1().ConfigMaps(namespace).Create(ctx, configMap(fmt.Sprintf("c%d-%d", serial, n)), metav1.CreateOptions{})
		return err
	}
}

// spread creates ConfigMaps in the namespaces of many consumers in turn.
func (b *bench) spread(connections []kubernetes.Interface) operation {
	b.serial++
	serial := b.serial
	return func(ctx context.Context, client, n int) error {
		object := configMap(fmt.Sprintf("c%d-%d", serial, n))
		_, err := connections[client].CoreV1().ConfigMaps(many(n%manyConsumers)).Create(ctx, object, metav1.CreateOptions{})
		return err
	}
}

// unprotected creates Secrets: objects like ConfigMaps, but of a kind without a policy.
func (b *bench) unprotected(connections []kubernetes.Interface) operation {
	return b.secrets(connections, unprotected)
}

// secrets creates Secrets in a namespace, each under a name of its own.
func (b *bench) secrets(connections []kubernetes.Interface, namespace string) operation {
	b.serial++
	serial := b.serial
	return func(ctx context.Context, client, n int) error {
		like := configMap(fmt.Sprintf("c%d-%d", serial, n))
		secret := &corev1.Secret{ObjectMeta: like.ObjectMeta, StringData: like.Data}
		_, err := connections[client].CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"counted": "true"}},
		Data:       map[string]string{"key": "value"},
	}
}

// denied creates objects that Bursar must deny.
func (b *bench) denied(connections []kubernetes.Interface) operation {
	create := b.creator(connections, nothing)
	return func(ctx context.Context, client, n int) error {
		err := create(ctx, client, n)
		if err == nil {
			return fmt.Errorf("created without quota")
		}
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota") {
			return nil
		}
		return err
	}
}

// fill creates protected ConfigMaps up to a number of claims.
func (b *bench) fill(ctx context.Context, wanted int) error {
	count, err := b.claimCount(ctx)
	if err != nil || count >= wanted {
		return err
	}
	const clients = 16
	connections, err := b.connect(clients)
	if err != nil {
		return err
	}
	r := b.load(ctx, clients, wanted-count, b.creator(connections, plenty))
	if r.failures > 0 {
		return fmt.Errorf("fill up to %d claims: %w", wanted, r.failure)
	}
	return b.settle(ctx)
}

// claimCount is how many claims exist.
func (b *bench) claimCount(ctx context.Context) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("ResourceClaimList"))
	if err := b.client.List(ctx, list, client.Limit(1)); err != nil {
		return 0, err
	}
	count := len(list.Items)
	if list.RemainingItemCount != nil {
		count += int(*list.RemainingItemCount)
	}
	return count, nil
}

// settle waits until the ledgers have all created objects and nothing is in flight, so one measurement does not pay for
// the one before.
func (b *bench) settle(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		list := &quotav1alpha1.ConsumerLedgerList{}
		if err := b.client.List(ctx, list); err != nil {
			return false, err
		}
		for _, ledger := range list.Items {
			if len(ledger.Spec.Reservations) > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}
