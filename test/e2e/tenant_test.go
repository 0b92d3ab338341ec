package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone/apiserver"
)

// account is a ServiceAccount of the world. It has credentials of its own, so tests also cover its rights to
// impersonate.
type account struct {
	user   string
	config *rest.Config
}

// newAccount makes a ServiceAccount, still without permissions.
func (w *world) newAccount(name string) account {
	w.Helper()
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name}}
	w.mustCreate(object)
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(w.ctx, object, request); err != nil {
		w.Fatalf("make a token for %s: %v", name, err)
	}
	config := rest.AnonymousClientConfig(started.Config)
	config.BearerToken, config.QPS = request.Status.Token, -1
	return account{user: "system:serviceaccount:" + w.name + ":" + name, config: config}
}

// as returns a client for the account, or for the user it impersonates.
func (w *world) as(a account, impersonate rest.ImpersonationConfig) client.Client {
	w.Helper()
	config := rest.CopyConfig(a.config)
	config.Impersonate = impersonate
	api, err := client.New(config, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	if err != nil {
		w.Fatal(err)
	}
	return api
}

// tenantWorld is a world with a limit of two: a tenant uses one, and a service holds the other for it.
type tenantWorld struct {
	*world
	tenant account
	api    client.Client
	// paid pays for the tenant's ConfigMap. A service claimed held.
	paid, held *quotav1alpha1.ResourceClaim
}

// newTenantWorld binds the roles to a tenant in its namespace.
func newTenantWorld(t *testing.T, roles ...string) *tenantWorld {
	t.Helper()
	w := &tenantWorld{world: newProtectedWorld(t, 2)}
	w.tenant = w.newAccount("tenant")
	for _, role := range roles {
		w.bind(w.tenant.user, role, w.name)
	}
	w.waitMay(w.tenant.user, attributesOf("resourceclaims.quota.miloapis.com", "list", w.name))
	if slices.ContainsFunc(roles, canEdit) {
		w.waitMay(w.tenant.user, attributesOf("configmaps", "create", w.name))
	}
	w.api = w.as(w.tenant, rest.ImpersonationConfig{})
	w.mustCreate(w.configMap("a"))
	w.paid = w.claimOf("a")
	w.held = w.claim("held", 1)
	w.mustCreate(w.held)
	w.waitCondition(w.held, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucket(2, 2, 0, 2)
	return w
}

func canEdit(role string) bool { return role == "edit" || role == "admin" }

// attacks are a tenant's possible attempts to get more than its quota.
func (w *tenantWorld) attacks() map[string]func(context.Context) error {
	patch := func(object client.Object, patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			return w.api.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	patchStatus := func(object client.Object, patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			return w.api.Status().Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
	create := func(object client.Object) func(context.Context) error {
		return func(ctx context.Context) error { return w.api.Create(ctx, object) }
	}
	remove := func(object client.Object) func(context.Context) error {
		return func(ctx context.Context) error { return w.api.Delete(ctx, object) }
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: w.name} }
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: in("base")}
	bucket := &quotav1alpha1.AllowanceBucket{ObjectMeta: in(naming.Bucket(w.consumer(), w.resourceType(), nil))}
	view := &quotav1alpha1.EffectiveResourceGrant{ObjectMeta: in("any")}
	ledger := &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(w.consumer())}}
	more := &quotav1alpha1.ResourceGrant{ObjectMeta: in("more"), Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: w.consumer(),
		Allowances: []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 9}}}}}}
	elses, forged := w.claim("elses", 1), w.claim("forged", 1)
	elses.Spec.ConsumerRef.Name = "somebody-else"
	forged.Labels = map[string]string{quotav1alpha1.LabelAutoCreated: "true", quotav1alpha1.LabelPolicy: w.name}
	return map[string]func(context.Context) error{
		"free what its object uses":      remove(w.paid),
		"free what a service holds":      remove(w.held),
		"free everything at once":        func(ctx context.Context) error { return w.api.DeleteAllOf(ctx, w.held, client.InNamespace(w.name)) },
		"let a claim go uncounted":       patch(w.paid, `{"metadata":{"finalizers":null}}`),
		"use up somebody else's quota":   create(elses),
		"forge a claim that is paid for": create(forged),
		"forge the marks of a claim":     patch(w.held, `{"metadata":{"labels":{"quota.miloapis.com/auto-created":"true"}}}`),
		"tie a claim to another object":  patch(w.paid, `{"metadata":{"annotations":{"quota.miloapis.com/resource-uid":"none"}}}`),
		"make a claim belong to nothing": patch(w.held, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`),
		"move a claim to another":        patch(w.held, `{"spec":{"consumerRef":{"name":"somebody-else"}}}`),
		"claim less afterwards":          patch(w.held, `{"spec":{"requests":[]}}`),
		"say that a claim is denied":     patchStatus(w.held, `{"status":{"conditions":[]}}`),
		"say that a grant is active":     patchStatus(grant, `{"status":{"conditions":[]}}`),
		"say that a bucket is empty":     patchStatus(bucket, `{"status":{"allocated":0}}`),
		"say that more is granted":       patchStatus(view, `{"status":{"conditions":[]}}`),
		"grant itself more":              create(more),
		"raise its grant":                patch(grant, `{"spec":{"allowances":[{"resourceType":"`+w.resourceType()+`","buckets":[{"amount":9}]}]}}`),
		"delete its grant":               remove(grant),
		"delete its bucket":              remove(bucket),
		"delete the tenant's view":       remove(view),
		"read the ledger":                func(ctx context.Context) error { return w.api.Get(ctx, client.ObjectKeyFromObject(ledger), ledger) },
		"write the ledger":               patch(ledger, `{"spec":{"used":[]}}`),
		"delete the ledger":              remove(ledger),
		"disable the policy":             patch(&quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.name}}, `{"spec":{"enabled":false}}`),
		"delete the registration":        remove(&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: registrationName(w.resourceType())}}),
		"delete its namespace":           remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}),
		"read what control planes use": func(ctx context.Context) error {
			return w.api.List(ctx, &corev1.SecretList{}, client.InNamespace(config.DefaultSystemNamespace))
		},
		"make itself a service": create(&rbacv1.RoleBinding{ObjectMeta: in("service"),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bursar-owning-service"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "tenant"}}}),
		"make a role that frees": create(&rbacv1.Role{ObjectMeta: in("free"),
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"resourceclaims"}, Verbs: []string{"delete"}}}}),
		"act as Bursar": func(ctx context.Context) error {
			return w.as(w.tenant, rest.ImpersonationConfig{UserName: apiserver.OperatorUser}).Delete(ctx, w.paid)
		},
		"get past enforcement": func(ctx context.Context) error {
			broken := rest.ImpersonationConfig{UserName: w.tenant.user, Groups: []string{quotav1alpha1.BreakGlassGroup}}
			return w.as(w.tenant, broken).Create(ctx, w.configMap("b"))
		},
	}
}

// The API server forbids a tenant all attempts in its own namespace, with each of the roles for tenants, and nothing
// has changed afterwards.
func TestTenantCannotHelpItself(t *testing.T) {
	t.Parallel()
	for name, roles := range map[string][]string{
		"viewer":          {"bursar-tenant-viewer"},
		"administrator":   {"bursar-tenant-admin"},
		"usual edit":      {"bursar-tenant-admin", "edit"},
		"usual admin":     {"bursar-tenant-admin", "admin"},
		"usual view only": {"view"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTenantWorld(t, roles...)
			for attack, attempt := range w.attacks() {
				err := attempt(w.ctx)
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot") && !strings.Contains(err.Error(), "attempting to grant") {
					t.Errorf("a tenant tried to %s: got %v, want it to be forbidden for lack of permission", attack, err)
				}
			}
			for _, before := range []*quotav1alpha1.ResourceClaim{w.paid, w.held} {
				after := &quotav1alpha1.ResourceClaim{}
				if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(before), after); err != nil {
					t.Fatalf("a tenant reads its claim: %v", err)
				}
				if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
					t.Errorf("claim %s has changed from %+v to %+v", before.Name, before, after)
				}
			}
			w.wantBucket(2, 2, 0, 2)
			if !slices.ContainsFunc(roles, canEdit) {
				return
			}
			// Tenants may delete objects to free quota, and use it again.
			if err := w.api.Create(w.ctx, w.configMap("b")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
				t.Errorf("the tenant is at its limit: got %v, want it to be refused for lack of quota", err)
			}
			if err := w.api.Delete(w.ctx, w.configMap("a")); err != nil {
				t.Fatal(err)
			}
			w.wantBucket(2, 1, 1, 1)
			if err := w.api.Create(w.ctx, w.configMap("b")); err != nil {
				t.Errorf("the tenant has made room: %v", err)
			}
		})
	}
}

// With break-glass and the right to impersonate oneself, a user can act in that group, and in no other. Both are
// necessary.
func TestBreakGlassByCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self := func(a account, groups ...string) rest.ImpersonationConfig {
		return rest.ImpersonationConfig{UserName: a.user, Groups: groups}
	}
	seen := func(a account, as rest.ImpersonationConfig) ([]string, error) {
		review := &authenticationv1.SelfSubjectReview{}
		err := w.as(a, as).Create(w.ctx, review)
		return review.Status.UserInfo.Groups, err
	}
	allowSelf := func(a account, name string) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{name}, Verbs: []string{"impersonate"},
		}}}
		w.mustCreate(role)
		w.bind(a.user, role.Name, w.name)
		attributes := attributesOf("serviceaccounts", "impersonate", w.name)
		attributes.Name = name
		w.waitMay(a.user, attributes)
	}
	permitted, selfOnly, roleOnly := w.newAccount("permitted"), w.newAccount("self-only"), w.newAccount("role-only")
	group := attributesOf("groups", "impersonate", "")
	group.Name = quotav1alpha1.BreakGlassGroup
	for _, a := range []account{permitted, roleOnly} {
		w.bind(a.user, "bursar-break-glass", "")
		w.waitMay(a.user, group)
	}
	allowSelf(permitted, "permitted")
	allowSelf(selfOnly, "self-only")

	groups, err := seen(permitted, self(permitted, quotav1alpha1.BreakGlassGroup))
	if err != nil || !slices.Contains(groups, quotav1alpha1.BreakGlassGroup) {
		t.Errorf("whoever is permitted is seen in the groups %v, error %v", groups, err)
	}
	tests := map[string]struct {
		reason string
		who    account
		as     rest.ImpersonationConfig
	}{
		"masters":       {"the role names one group", permitted, self(permitted, "system:masters")},
		"masters, too":  {"also beside that group", permitted, self(permitted, quotav1alpha1.BreakGlassGroup, "system:masters")},
		"somebody else": {"the group alone does not let people act as others", permitted, self(selfOnly, quotav1alpha1.BreakGlassGroup)},
		"Bursar":        {"least of all as Bursar", permitted, rest.ImpersonationConfig{UserName: apiserver.OperatorUser, Groups: []string{quotav1alpha1.BreakGlassGroup}}},
		"without role":  {"acting as oneself gives no group", selfOnly, self(selfOnly, quotav1alpha1.BreakGlassGroup)},
		"without self":  {"a group is taken together with a user only", roleOnly, self(roleOnly, quotav1alpha1.BreakGlassGroup)},
	}
	for name, tt := range tests {
		if groups, err := seen(tt.who, tt.as); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %s: seen in the groups %v, error %v; want it to be forbidden", name, tt.reason, groups, err)
		}
	}
}
