package standalone

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// checkSystemNamespace rejects a change of the ledgers' system namespace: a change would orphan the claims and buckets
// in the former one.
func checkSystemNamespace(ctx context.Context, config *rest.Config, system string) error {
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a metadata client: %w", err)
	}
	ledgers, err := objects.Resource(quotav1alpha1.GroupVersion.WithResource("consumerledgers")).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) || err == nil && len(ledgers.Items) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for ledgers: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	leases, err := client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + naming.ReviewsLease})
	if err != nil {
		return fmt.Errorf("look for the system namespace of the ledgers: %w", err)
	}
	former := ""
	for _, lease := range leases.Items {
		if lease.Namespace == system {
			return nil
		}
		former = lease.Namespace
	}
	if former == "" {
		return nil
	}
	return fmt.Errorf("--system-namespace %s: the ledgers that are stored here belong to the system namespace %s; start with --system-namespace %s, or choose another --data-dir",
		system, former, former)
}
