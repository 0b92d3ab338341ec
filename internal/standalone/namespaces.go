package standalone

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/namespaces"
	"github.com/bursar/bursar/internal/naming"
)

// bindSystemNamespace records the system namespace of the ledgers, by the Lease of the leader in it. It rejects a
// change while there are ledgers: a change would orphan the claims and buckets in the former one.
func bindSystemNamespace(ctx context.Context, config *rest.Config, system string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	leases, err := client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + naming.LeaderLease})
	if err != nil {
		return fmt.Errorf("look for the system namespace of the ledgers: %w", err)
	}
	var former string
	for _, lease := range leases.Items {
		if lease.Namespace == system {
			return nil
		}
		former = lease.Namespace
	}

	if former != "" {
		if has, err := hasLedgers(ctx, config); err != nil {
			return err
		} else if has {
			return fmt.Errorf("--system-namespace %s: the ledgers that are stored here belong to the system namespace %s; start with --system-namespace %s, or choose another --data-dir",
				system, former, former)
		}
		if err := client.CoordinationV1().Leases(former).Delete(ctx, naming.LeaderLease, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("leave the system namespace %s: %w", former, err)
		}
	}
	if err := namespaces.Ensure(ctx, client, system); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: naming.LeaderLease}}
	if _, err := client.CoordinationV1().Leases(system).Create(ctx, lease, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("record the system namespace %s: %w", system, err)
	}
	return nil
}

func hasLedgers(ctx context.Context, config *rest.Config) (bool, error) {
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return false, fmt.Errorf("make a metadata client: %w", err)
	}
	ledgers, err := objects.Resource(quotav1alpha1.GroupVersion.WithResource("consumerledgers")).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for ledgers: %w", err)
	default:
		return len(ledgers.Items) > 0, nil
	}
}
