package standalone

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

const namespaces = "a namespace has lower-case letters, digits and '-' only, 63 at most, and no '-' at its ends"

// ParseConsumerNamespaces reads what --consumer-namespace is given: KIND.GROUP=TEMPLATE each.
func ParseConsumerNamespaces(values []string) (map[schema.GroupKind]string, error) {
	templates := map[schema.GroupKind]string{}
	for _, value := range values {
		name, template, found := strings.Cut(value, "=")
		kind := schema.ParseGroupKind(name)
		if !found || kind.Kind == "" || template == "" {
			return nil, fmt.Errorf("--consumer-namespace: %q is not of the form KIND.GROUP=TEMPLATE, such as Organization.resourcemanager.example.com=organization-%s", value, naming.ConsumerName)
		}
		if _, twice := templates[kind]; twice {
			return nil, fmt.Errorf("--consumer-namespace: %s is given twice", kind)
		}
		templates[kind] = template
	}
	return templates, nil
}

// validateNamespaces makes sure that these can be names of namespaces.
func validateNamespaces(system string, consumers map[schema.GroupKind]string) error {
	if system != "" && len(validation.IsDNS1123Label(system)) > 0 {
		return fmt.Errorf("--system-namespace: %q cannot be the name of a namespace: %s", system, namespaces)
	}
	for kind, template := range consumers {
		if name := naming.ConsumerNamespace(template, "a"); len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("--consumer-namespace: %s=%s does not make the name of a namespace: %s", kind, template, namespaces)
		}
	}
	return nil
}

// checkSystemNamespace makes sure that ledgers are not used with another system namespace than before: the claims and
// buckets in the former one would be those of nobody.
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
