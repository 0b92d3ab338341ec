package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	reading  = "get list watch"
	managing = reading + " create update patch delete"
)

var (
	// TestWhatRolesPermit asks about each of askedVerbs on each of askedResources, for each role.
	askedVerbs     = strings.Fields(managing + " deletecollection impersonate bind escalate")
	quotaResources = []string{
		"resourceregistrations", "claimcreationpolicies", "grantcreationpolicies", "consumerledgers",
		"resourcegrants", "resourceclaims", "allowancebuckets", "effectiveresourcegrants",
		"quotarequests", "quotadecisions", "quotarequestpolicies", "quotaalerts", "quotareviews", "quotahistories", "quotausages",
	}
	increaseResources = []string{
		"quotaserviceconfigs.openmcp.cloud", "quotaincreases.openmcp.cloud", "quotaserviceconfigs/status.openmcp.cloud", "quotaincreases/status.openmcp.cloud",
		"quotaconsumers.import.quota.miloapis.com",
	}
	askedResources = append(slices.Concat(ofQuota(quotaResources, ""), ofQuota(quotaResources, "/status"), ofQuota(quotaResources, "/finalizers"), increaseResources),
		"secrets", "configmaps", "events", "events.events.k8s.io", "namespaces", "serviceaccounts", "serviceaccounts/token", "users", "groups",
		"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
		"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"customresourcedefinitions.apiextensions.k8s.io")
	// consumerReads permits reading the objects of consumers. tenantReads adds the objects of namespaces.
	consumerReads = permits{
		"resourcegrants.quota.miloapis.com": reading, "resourceclaims.quota.miloapis.com": reading,
		"allowancebuckets.quota.miloapis.com": reading, "effectiveresourcegrants.quota.miloapis.com": reading,
	}
	tenantReads = consumerReads.with(permits{
		"quotaincreases.openmcp.cloud": reading, "quotarequests.quota.miloapis.com": reading, "quotadecisions.quota.miloapis.com": reading,
		"quotaalerts.quota.miloapis.com": reading, "quotareviews.quota.miloapis.com": "create", "quotahistories.quota.miloapis.com": "create",
		"quotausages.quota.miloapis.com": "create",
	})
)

// permits maps resources, written RESOURCE[/SUBRESOURCE][.GROUP], to the verbs of a role. It permits no others.
type permits map[string]string

func (p permits) with(others permits) permits {
	all := permits{}
	for _, each := range []permits{p, others} {
		for resource, verbs := range each {
			all[resource] = verbs
		}
	}
	return all
}

func ofQuota(resources []string, subresource string) []string {
	var names []string
	for _, resource := range resources {
		names = append(names, resource+subresource+"."+quotav1alpha1.GroupName)
	}
	return names
}

// attributesOf parses a resource in the form of permits.
func attributesOf(resource, verb, namespace string) authorizationv1.ResourceAttributes {
	groupResource := schema.ParseGroupResource(resource)
	name, subresource, _ := strings.Cut(groupResource.Resource, "/")
	return authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: groupResource.Group, Version: "*", Resource: name, Subresource: subresource,
	}
}

// may asks the API server whether a user may do something.
func (w *world) may(user string, attributes authorizationv1.ResourceAttributes) bool {
	w.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: &attributes,
	}}
	if err := admin.Create(w.ctx, review); err != nil {
		w.Fatalf("ask whether %s may %s %s: %v", user, attributes.Verb, attributes.Resource, err)
	}
	return review.Status.Allowed
}

// bind gives a user a ClusterRole: in a namespace, or in the whole cluster if namespace is empty.
func (w *world) bind(user, role, namespace string) {
	w.Helper()
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}
	if account, isAccount := strings.CutPrefix(user, "system:serviceaccount:"); isAccount {
		of, name, _ := strings.Cut(account, ":")
		subject = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: of, Name: name}
	}
	meta := metav1.ObjectMeta{Name: w.name + "-" + strings.ReplaceAll(user, ":", "-") + "-" + role, Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if namespace == "" {
		w.mustCreate(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}})
		return
	}
	w.mustCreate(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{subject}})
}

// waitMay waits until the API server knows a permission of a user.
func (w *world) waitMay(user string, attributes authorizationv1.ResourceAttributes) {
	w.Helper()
	eventually(w, func() error {
		if !w.may(user, attributes) {
			return fmt.Errorf("%s may not %s %s", user, attributes.Verb, attributes.Resource)
		}
		return nil
	})
}

// Every role permits exactly the verbs and resources listed here. The test asks about every verb on every resource.
func TestWhatRolesPermit(t *testing.T) {
	t.Parallel()
	everywhere, inNamespace := false, true
	tests := map[string]struct {
		reason      string
		inNamespace bool
		permits     permits
	}{
		"bursar-platform-admin": {"writes what people write, and only reads what Bursar writes", everywhere, tenantReads.with(permits{
			"resourceregistrations.quota.miloapis.com": managing, "claimcreationpolicies.quota.miloapis.com": managing,
			"grantcreationpolicies.quota.miloapis.com": managing, "resourcegrants.quota.miloapis.com": managing,
			"resourceclaims.quota.miloapis.com": managing, "consumerledgers.quota.miloapis.com": reading,
			"quotaserviceconfigs.openmcp.cloud": managing, "quotaincreases.openmcp.cloud": managing,
			"quotarequests.quota.miloapis.com": reading + " delete", "quotadecisions.quota.miloapis.com": reading + " delete",
			"quotarequestpolicies.quota.miloapis.com": managing, "quotaalerts.quota.miloapis.com": managing,
			"namespaces": "get list", "quotaconsumers.import.quota.miloapis.com": "get list",
		})},
		"bursar-quota-manager": {"decides on grants alone", everywhere, tenantReads.with(permits{
			"resourcegrants.quota.miloapis.com": managing, "resourceregistrations.quota.miloapis.com": reading,
			"claimcreationpolicies.quota.miloapis.com": reading, "grantcreationpolicies.quota.miloapis.com": reading,
			"consumerledgers.quota.miloapis.com": reading, "quotadecisions.quota.miloapis.com": reading + " create",
			"quotarequestpolicies.quota.miloapis.com": reading,
			"quotaserviceconfigs.openmcp.cloud":       reading, "quotaincreases.openmcp.cloud": managing,
		})},
		"bursar-quota-approver": {"decides on requests alone", everywhere, consumerReads.with(permits{
			"resourceregistrations.quota.miloapis.com": reading, "quotarequestpolicies.quota.miloapis.com": reading,
			"quotarequests.quota.miloapis.com": reading, "quotadecisions.quota.miloapis.com": reading + " create",
			"quotaalerts.quota.miloapis.com": reading, "events": reading, "events.events.k8s.io": reading,
			"quotareviews.quota.miloapis.com": "create", "quotahistories.quota.miloapis.com": "create", "quotausages.quota.miloapis.com": "create",
		})},
		"bursar-journal-reader": {"reads journals and which there are, and nothing else", everywhere, permits{
			"quotahistories.quota.miloapis.com": "create", "consumerledgers.quota.miloapis.com": "get list",
		}},
		"bursar-tenant-viewer": {"sees its own quota", inNamespace, tenantReads},
		"bursar-tenant-admin": {"sees why something was refused, too", inNamespace, tenantReads.with(permits{
			"events": reading, "events.events.k8s.io": reading, "quotarequests.quota.miloapis.com": reading + " create update patch",
			"quotaalerts.quota.miloapis.com": managing,
		})},
		"bursar-owning-service": {"claims, resizes and gives back", everywhere, consumerReads.with(permits{
			"resourceclaims.quota.miloapis.com": reading + " create patch delete", "resourceregistrations.quota.miloapis.com": reading,
		})},
		"bursar-metrics-reader": {"is about no resource", everywhere, permits{}},
		"bursar-break-glass":    {"is about one group by name, and so about no resource as a whole", everywhere, permits{}},
	}
	for role, tt := range tests {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, ctx: t.Context(), name: "permits"}
			namespace, bound := w.name+"-"+role, ""
			w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			if tt.inNamespace {
				bound = namespace
			}
			user := role + "-user"
			w.bind(user, role, bound)
			for resource, verbs := range tt.permits {
				w.waitMay(user, attributesOf(resource, strings.Fields(verbs)[0], namespace))
			}
			w.wantPermits(user, namespace, askedResources, tt.permits)
			if tt.inNamespace {
				w.wantPermits(user, "default", askedResources, permits{})
			}
		})
	}
}

// wantPermits compares a user's permissions in a namespace with permitted.
func (w *world) wantPermits(user, namespace string, resources []string, permitted permits) {
	w.Helper()
	for _, resource := range resources {
		for _, verb := range askedVerbs {
			want := slices.Contains(strings.Fields(permitted[resource]), verb)
			if got := w.may(user, attributesOf(resource, verb, namespace)); got != want {
				w.Errorf("%s may %s %s in namespace %s: %t, want %t", user, verb, resource, namespace, got, want)
			}
		}
	}
}

// The usual roles permit reading the quota objects of tenants, and nothing else of quota.
func TestUsualRolesReadQuota(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"view", "edit", "admin"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, ctx: t.Context(), name: "usual-" + role}
			w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
			user := w.name + "-user"
			w.bind(user, role, w.name)
			for resource, verbs := range tenantReads {
				w.waitMay(user, attributesOf(resource, strings.Fields(verbs)[0], w.name))
			}
			ofQuotaOnly := slices.DeleteFunc(slices.Clone(askedResources), func(resource string) bool {
				return schema.ParseGroupResource(resource).Group != quotav1alpha1.GroupName
			})
			w.wantPermits(user, w.name, ofQuotaOnly, tenantReads)
			w.wantPermits(user, "default", ofQuotaOnly, permits{})
		})
	}
}

// Break-glass lets people impersonate its group, and nobody else.
func TestBreakGlassPermitsOneGroup(t *testing.T) {
	t.Parallel()
	w := &world{T: t, ctx: t.Context(), name: "one-group"}
	impersonate := func(resource, name string) authorizationv1.ResourceAttributes {
		attributes := attributesOf(resource, "impersonate", "")
		attributes.Name = name
		return attributes
	}
	const user = "on-call"
	w.bind(user, "bursar-break-glass", "")
	w.waitMay(user, impersonate("groups", quotav1alpha1.BreakGlassGroup))
	for _, other := range []authorizationv1.ResourceAttributes{
		impersonate("groups", "system:masters"), impersonate("groups", ""), impersonate("users", user), impersonate("users", "admin"),
		impersonate("users", quotav1alpha1.BreakGlassGroup), impersonate("serviceaccounts", "default"),
		impersonate("uids.authentication.k8s.io", "1"), impersonate("userextras/scopes.authentication.k8s.io", "all"),
	} {
		if w.may(user, other) {
			t.Errorf("break-glass permits to impersonate %s %q", other.Resource, other.Name)
		}
	}
}
