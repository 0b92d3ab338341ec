package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
	"github.com/bursar/bursar/internal/naming"
)

// removeDefinitions deletes the CustomResourceDefinitions, and waits until they no longer exist.
func (u *uninstaller) removeDefinitions(ctx context.Context) error {
	api := u.extensions.ApiextensionsV1().CustomResourceDefinitions()
	if !u.DryRun {
		for _, k := range u.kinds {
			if err := api.Delete(ctx, k.definition, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete CustomResourceDefinition %s: %w", k.definition, err)
			}
		}
		err := persist(ctx, func() (remaining int, err error) {
			for _, k := range u.kinds {
				_, err := api.Get(ctx, k.definition, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					continue
				}
				if remaining++; err != nil {
					return remaining, err
				}
			}
			return remaining, nil
		})
		if err != nil {
			return fmt.Errorf("delete the CustomResourceDefinitions: %w", err)
		}
	}
	if len(u.kinds) > 0 {
		u.report("deleted", "delete", "%d CustomResourceDefinitions", len(u.kinds))
	}
	return nil
}

// cleanNamespace deletes Bursar's objects in its namespace and, if it is empty then, the namespace.
func (u *uninstaller) cleanNamespace(ctx context.Context) error {
	if _, err := u.client.CoreV1().Namespaces().Get(ctx, u.SystemNamespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read namespace %s: %w", u.SystemNamespace, err)
	}
	if !u.DryRun {
		if err := u.removeOwn(ctx); err != nil {
			return err
		}
	}
	if slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}, u.SystemNamespace) {
		return nil
	}
	others, err := u.othersIn(ctx)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		u.note("namespace %s stays, because it holds %s; to delete it with all of that: kubectl delete namespace %s",
			u.SystemNamespace, enumerate(others), u.SystemNamespace)
		return nil
	}
	if err := u.unlessDry(ctx, u.removeNamespace); err != nil {
		return fmt.Errorf("delete namespace %s: %w", u.SystemNamespace, err)
	}
	u.report("deleted", "delete", "namespace %s", u.SystemNamespace)
	return nil
}

func (u *uninstaller) removeNamespace(ctx context.Context) error {
	api := u.client.CoreV1().Namespaces()
	if err := api.Delete(ctx, u.SystemNamespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return persist(ctx, func() (int, error) {
		_, err := api.Get(ctx, u.SystemNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 1, err
	})
}

// enumerate names the first of some objects.
func enumerate(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// ownSecrets names the Secrets of the operator.
func (u *uninstaller) ownSecrets() []string {
	return []string{u.CertificateSecret, u.CertificateSecret + naming.CallersSuffix}
}

// isOwn reports whether Bursar, or Kubernetes for every namespace, has created an object.
func (u *uninstaller) isOwn(resource schema.GroupVersionResource, name string) bool {
	switch resource.GroupResource() {
	case schema.GroupResource{Resource: "secrets"}:
		return slices.Contains(u.ownSecrets(), name)
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return strings.HasPrefix(name, leasePrefix)
	case schema.GroupResource{Resource: "configmaps"}:
		return name == "kube-root-ca.crt"
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return name == "default"
	default:
		return slices.Contains([]string{"events", "endpoints", "endpointslices"}, resource.Resource) ||
			slices.Contains([]string{quotav1alpha1.GroupName, openmcpv1alpha1.GroupName, quotakinds.Consumers.Group}, resource.Group)
	}
}

// removeOwn deletes the Secrets and Leases of the operator.
func (u *uninstaller) removeOwn(ctx context.Context) error {
	for _, name := range u.ownSecrets() {
		err := u.client.CoreV1().Secrets(u.SystemNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Secret %s: %w", name, err)
		}
	}
	leases, err := u.client.CoordinationV1().Leases(u.SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Leases in namespace %s: %w", u.SystemNamespace, err)
	}
	for _, lease := range leases.Items {
		if !strings.HasPrefix(lease.Name, leasePrefix) {
			continue
		}
		err := u.client.CoordinationV1().Leases(u.SystemNamespace).Delete(ctx, lease.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Lease %s: %w", lease.Name, err)
		}
	}
	return nil
}

// othersIn returns the objects of others in Bursar's namespace, as resource/name.
func (u *uninstaller) othersIn(ctx context.Context) ([]string, error) {
	var others []string
	lists, err := discovery.ServerPreferredNamespacedResources(u.client.Discovery())
	if discovery.IsGroupDiscoveryFailedError(err) {
		others = append(others, "objects of APIs that do not answer")
	} else if err != nil {
		return nil, fmt.Errorf("list the kinds that namespace %s can have: %w", u.SystemNamespace, err)
	}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("parse the version %s: %w", list.GroupVersion, err)
		}
		for _, served := range list.APIResources {
			resource := version.WithResource(served.Name)
			objects, err := u.metadata.Resource(resource).Namespace(u.SystemNamespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotAcceptable(err) {
				continue // such as a kind with a definition under deletion
			}
			if err != nil {
				return nil, fmt.Errorf("list %s in namespace %s: %w", resource.GroupResource(), u.SystemNamespace, err)
			}
			for i := range objects.Items {
				if object := objects.Items[i]; object.DeletionTimestamp == nil && !u.isOwn(resource, object.Name) {
					others = append(others, resource.GroupResource().String()+"/"+object.Name)
				}
			}
		}
	}
	slices.Sort(others)
	return others, nil
}

// warnOfOtherControlPlanes names policies with grants in other control planes. Only a running operator could delete
// these grants.
func (u *uninstaller) warnOfOtherControlPlanes(ctx context.Context, k kind) error {
	if k.Resource != "grantcreationpolicies" {
		return nil
	}
	return u.eachPage(ctx, k, func(page []metav1.PartialObjectMetadata) error {
		for i := range page {
			if page[i].Annotations[quotav1alpha1.AnnotationControlPlanes] != "" {
				u.note("GrantCreationPolicy %s has made grants in other control planes. They stay: delete them there", page[i].Name)
			}
		}
		return nil
	})
}

// reportRemaining reports the remaining objects without --purge, and how to delete them.
func (u *uninstaller) reportRemaining(ctx context.Context) error {
	u.note("without Bursar nothing is enforced, and no deletion waits for it. Its objects stay for a later installation:")
	for _, k := range u.kinds {
		_, count, err := u.count(ctx, k)
		if err != nil {
			return err
		}
		if count > 0 {
			fmt.Fprintf(u.Out, "  %d %s\n", count, k) //nolint:errcheck // the reader may be gone
		}
	}
	if err := u.reportImports(ctx); err != nil {
		return err
	}
	fmt.Fprintf(u.Out, "  %d CustomResourceDefinitions, and namespace %s\n", len(u.kinds), u.SystemNamespace) //nolint:errcheck // the reader may be gone
	if u.DryRun {
		u.note("nothing was changed")
	}
	u.note("to delete all of that, and all quota with it: %s uninstall --purge", u.Program)
	return nil
}

// reportInstallation reports the objects for the installer to remove, and the remaining ResourceQuotas of Bursar.
func (u *uninstaller) reportInstallation(ctx context.Context) error {
	const ofBursar = "app.kubernetes.io/part-of=bursar"
	roles, err := u.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: ofBursar})
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list the ClusterRoles: %w", err)
	}
	if err == nil && len(roles.Items) > 0 {
		u.note("%d ClusterRoles of the installation stay; to remove the installation: helm uninstall or kubectl delete -k; to delete only the roles: kubectl delete clusterroles,clusterrolebindings -l %s",
			len(roles.Items), ofBursar)
	}
	quotas, err := u.client.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{LabelSelector: openmcpv1alpha1.LabelDefinition, Limit: 1})
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list the ResourceQuotas: %w", err)
	}
	if err == nil && len(quotas.Items) > 0 {
		u.note("the ResourceQuotas that QuotaServiceConfigs made stay and keep limiting; to delete them: kubectl delete resourcequotas --all-namespaces -l %s", openmcpv1alpha1.LabelDefinition)
	}
	if u.DryRun {
		u.note("nothing was changed")
		return nil
	}
	u.note("nothing that Bursar has stored is left")
	return nil
}
