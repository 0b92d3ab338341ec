package quotakinds

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// ImportedProtection is the name of the ValidatingAdmissionPolicy for the annotations of namespaces with imported
// limits, and of its binding.
const ImportedProtection = "bursar-imported-limits"

// ImportedRole returns the name of the ClusterRole of imports from a former system.
func ImportedRole(system string) string { return "bursar-imported-" + system }

var importVersion = schema.GroupVersion{Group: "import." + quotav1alpha1.GroupName, Version: "v1alpha1"}

// These kinds are not Bursar's, but quota depends on their objects.
var (
	// Namespaces are selected by their labels and annotations: by policies, allocations and QuotaServiceConfigs.
	Namespaces = Kind{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), Kind: "Namespace", Role: Place}
	// Consumers are the consumers made by bursar import.
	Consumers = Kind{GroupVersionResource: importVersion.WithResource("quotaconsumers"), Kind: "QuotaConsumer", IsNamespaced: true, Role: Imported}
	// ConsumerDefinitions has the definition of Consumers, and no other.
	ConsumerDefinitions = Kind{
		GroupVersionResource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), Kind: "CustomResourceDefinition", Role: Imported,
		Names: []string{Consumers.String()},
	}
	// ImportedRoles are the roles of imports, one for each former system. They let Bursar follow the kinds of the
	// imported policies.
	ImportedRoles = Kind{
		GroupVersionResource: rbacv1.SchemeGroupVersion.WithResource("clusterroles"), Kind: "ClusterRole", Role: Imported,
		Names: []string{
			ImportedRole("capsule"), ImportedRole("clusterresourcequota"), ImportedRole("hierarchicalresourcequota"), ImportedRole("milo"),
			ImportedRole("openmcp"), ImportedRole("resourcequota"),
		},
	}
	// ImportedProtections and ProtectionBindings have the objects with the name [ImportedProtection], and no others.
	ImportedProtections = Kind{
		GroupVersionResource: admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"), Kind: "ValidatingAdmissionPolicy", Role: Imported,
		Names: []string{ImportedProtection},
	}
	ProtectionBindings = Kind{
		GroupVersionResource: admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"), Kind: "ValidatingAdmissionPolicyBinding", Role: Imported,
		Names: []string{ImportedProtection},
	}
)

// ImportedKinds returns the kinds with the role [Imported], in the order for writing them.
func ImportedKinds() []Kind {
	return []Kind{ConsumerDefinitions, ImportedRoles, ImportedProtections, ProtectionBindings, Consumers}
}

// FindImported returns the kinds with the role [Imported], or none if the server has no imported consumers.
func FindImported(api discovery.DiscoveryInterface) ([]Kind, error) {
	_, err := api.ServerResourcesForGroupVersion(importVersion.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the API server for the kinds of %s: %w", importVersion, err)
	}
	return ImportedKinds(), nil
}

// establishTimeout bounds the wait until the API server serves a new kind.
const establishTimeout = time.Minute

// AwaitConsumers waits until the API server serves [Consumers], at most a minute.
func AwaitConsumers(ctx context.Context, api dynamic.Interface) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := api.Resource(Consumers.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s are served: %w", Consumers, err)
	}
	return nil
}

// DeclaredNamespace returns a namespace with the labels and annotations written by people and their tools.
func DeclaredNamespace(namespace *unstructured.Unstructured) *unstructured.Unstructured {
	labels := namespace.GetLabels()
	for _, key := range []string{
		corev1.LabelMetadataName, // the API server sets it
		openmcpv1alpha1.LabelManagedBy, openmcpv1alpha1.LabelBase, openmcpv1alpha1.LabelMode,
	} {
		delete(labels, key)
	}
	declared := namespace.DeepCopy()
	declared.SetLabels(labels)
	declared = Declaration(declared)
	delete(declared.Object, "spec")
	return declared
}
