package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/importer"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// migrated is a server with imported ResourceQuotas.
type migrated struct {
	*testing.T
	*server.Server
	options importer.Options
}

func (m *migrated) quota(namespace, name string, hard ...string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard...)}}
}

func (m *migrated) secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
}

func (m *migrated) create(objects ...client.Object) {
	m.Helper()
	for _, object := range objects {
		eventually(m, func() error { return client.IgnoreAlreadyExists(m.Admin.Create(m.Context(), object)) })
	}
}

func (m *migrated) run(options importer.Options) *importer.Report {
	m.Helper()
	report, err := importer.Run(m.Context(), options)
	must(m, err)
	return report
}

// claims are the claims of the import, by the name of their object.
func (m *migrated) claims(from string) map[string][]types.UID {
	m.Helper()
	var all quotav1alpha1.ResourceClaimList
	must(m, m.Admin.List(m.Context(), &all, client.MatchingLabels{quotav1alpha1.LabelImportedFrom: from}))
	found := map[string][]types.UID{}
	for i := range all.Items {
		ref := all.Items[i].Spec.ResourceRef
		key := ref.Kind + " " + ref.Namespace + "/" + ref.Name
		found[key] = append(found[key], all.Items[i].UID)
	}
	return found
}

// waitViews waits until each of some objects has one claim, and returns the claims of all.
func (m *migrated) waitViews(from string, objects ...string) (found map[string][]types.UID) {
	m.Helper()
	eventually(m, func() error {
		found = m.claims(from)
		for _, object := range objects {
			if len(found[object]) != 1 {
				return fmt.Errorf("%s has the claims %v, want one", object, found[object])
			}
		}
		return nil
	})
	return found
}

// waitAdopted waits until the policies have processed all objects, and have a mode.
func (m *migrated) waitAdopted(from string, mode quotav1alpha1.EnforcementMode) {
	m.Helper()
	eventually(m, func() error {
		for _, p := range imported(m, m.Server, from) {
			if p.Spec.EnforcementMode != mode {
				return fmt.Errorf("policy %s has the mode %s", p.Name, p.Spec.EnforcementMode)
			}
			adopted := apimeta.FindStatusCondition(p.Status.Conditions, quotav1alpha1.ConditionAdopted)
			if adopted == nil || adopted.Status != metav1.ConditionTrue || adopted.ObservedGeneration != p.Generation {
				return fmt.Errorf("policy %s has not processed all objects: %+v", p.Name, p.Status)
			}
		}
		return nil
	})
}

// wantDenied creates an object until Bursar denies it.
func (m *migrated) wantDenied(object client.Object) {
	m.Helper()
	eventually(m, func() error {
		created := object.DeepCopyObject().(client.Object)
		err := m.Admin.Create(m.Context(), created)
		if err == nil {
			return errors.Join(errors.New("it is not denied"), m.Admin.Delete(m.Context(), created))
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "QuotaConsumer") {
			return err
		}
		return nil
	})
}

// TestImportAgain follows a changed ResourceQuota, and then the end of ResourceQuotas after the switch.
func TestImportAgain(t *testing.T) {
	t.Parallel()
	m := &migrated{T: t, Server: start(t, standalone.Options{})}
	m.options = importer.Options{Config: m.Config, From: "resourcequota", SystemNamespace: config.DefaultSystemNamespace}
	for _, namespace := range []string{"again-a", "again-b"} {
		m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, m.secret(namespace, "one"))
	}
	limited := m.quota("again-a", "compute", "count/secrets=2")
	m.create(m.secret("again-a", "two"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "again-a"}},
		limited, m.quota("again-b", "compute", "count/secrets=5", "configmaps=9"))
	m.run(m.options)
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeAudit)
	_, err := importer.SetMode(t.Context(), m.options, quotav1alpha1.EnforcementModeEnforce)
	must(t, err)
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeEnforce)
	secrets := []string{"Secret again-a/one", "Secret again-a/two", "Secret again-b/one"}
	before := m.waitViews("resourcequota", secrets...)

	// More resources: one with a policy already, and one of a new kind.
	eventually(t, func() error { // the quota controller writes its status
		must(t, m.Admin.Get(t.Context(), client.ObjectKeyFromObject(limited), limited))
		limited.Spec.Hard = list("count/secrets=2", "configmaps=1", "count/roles.rbac.authorization.k8s.io=1")
		return m.Admin.Update(t.Context(), limited)
	})
	m.run(m.options)
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeEnforce)
	after := m.waitViews("resourcequota", append(secrets, "ConfigMap again-a/one")...)
	for _, name := range secrets {
		if !slices.Equal(before[name], after[name]) {
			t.Errorf("%s had the claims %v, and has %v", name, before[name], after[name])
		}
	}
	m.wantDenied(m.secret("again-a", "three"))
	m.wantDenied(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "two", Namespace: "again-a"}})
	m.testProtection("again-a")
	m.testWithoutSource(limited)
}

// testInterrupted imports again after an import that ended between the deletion of a policy and that of its claims.
func (m *migrated) testInterrupted(namespace string) {
	m.Helper()
	for _, policy := range imported(m, m.Server, "resourcequota") {
		if policy.Spec.Trigger.Resource.Kind == "Secret" {
			must(m, m.Admin.Delete(m.Context(), &policy))
		}
	}
	quota := m.quota(namespace, "compute")
	eventually(m, func() error { // the quota controller writes its status
		must(m, m.Admin.Get(m.Context(), client.ObjectKeyFromObject(quota), quota))
		quota.Spec.Hard = list("configmaps=9")
		return m.Admin.Update(m.Context(), quota)
	})
	if charged := m.claims("resourcequota")["Secret "+namespace+"/one"]; len(charged) != 1 {
		m.Errorf("before the import, the Secret has the claims %v, want that of the deleted policy", charged)
	}
	m.run(m.options)
	if charged := m.claims("resourcequota")["Secret "+namespace+"/one"]; len(charged) > 0 {
		m.Errorf("after the import, the Secret still has the claims %v of a deleted policy", charged)
	}
}

// testProtection checks that a tenant with rights on a namespace cannot lift its limits.
func (m *migrated) testProtection(namespace string) {
	m.Helper()
	m.create(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "namespaces"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}, Verbs: []string{"get", "patch", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "namespaces"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "namespaces"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}}})
	who := rest.CopyConfig(m.Config)
	who.Impersonate = rest.ImpersonationConfig{UserName: "tenant"}
	tenant, err := client.New(who, client.Options{})
	must(m, err)
	patch := func(name, value string) error {
		return tenant.Patch(m.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, name, value)))
	}
	eventually(m, func() error { return patch("example.com/note", `"x"`) })
	isProtected := func(err error) bool { return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "quota") }
	for reason, value := range map[string]string{"removes": `null`, "changes": `"configmaps"`} {
		eventually(m, func() error {
			if err := patch(quotav1alpha1.AnnotationImportedLimits+"resourcequota", value); !isProtected(err) {
				return fmt.Errorf("a tenant %s the limits of a namespace: %w", reason, err)
			}
			return nil
		})
	}
	change := []byte(`{"metadata":{"annotations":{"` + quotav1alpha1.AnnotationImportedLimits + `resourcequota":null}}}`)
	current := &corev1.Namespace{}
	must(m, tenant.Get(m.Context(), client.ObjectKey{Name: namespace}, current))
	if err := tenant.Status().Patch(m.Context(), current.DeepCopy(), client.RawPatch(types.MergePatchType, change)); !isProtected(err) {
		m.Errorf("through the status, a tenant removes the limits of a namespace: %v", err)
	}
	delete(current.Annotations, quotav1alpha1.AnnotationImportedLimits+"resourcequota")
	if err := tenant.SubResource("finalize").Update(m.Context(), current); !isProtected(err) {
		m.Errorf("through finalize, a tenant removes the limits of a namespace: %v", err)
	}
}

// testWithoutSource deletes a ResourceQuota after the switch: its limits stay until they are pruned.
func (m *migrated) testWithoutSource(limited *corev1.ResourceQuota) {
	m.Helper()
	must(m, m.Admin.Delete(m.Context(), limited))
	dry := m.options
	dry.DryRun = true
	for _, options := range []importer.Options{dry, m.options} {
		report := m.run(options)
		if len(report.Plan.Kept) != 3 || len(report.Plan.Deleted) != 0 {
			m.Errorf("without its ResourceQuota, an import keeps %+v and deletes %+v", report.Plan.Kept, report.Plan.Deleted)
		}
	}
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeEnforce)
	m.wantDenied(m.secret(limited.Namespace, "three"))

	dry.Prune, m.options.Prune = true, true
	var text strings.Builder
	must(m, m.run(dry).Print(&text, ""))
	for _, part := range []string{"would be deleted", "ResourceGrant again-a/imported-resourcequota", "QuotaConsumer again-a/again-a", "Enforce"} {
		if !strings.Contains(text.String(), part) {
			m.Errorf("the report does not say %q:\n%s", part, text.String())
		}
	}
	m.wantDenied(m.secret(limited.Namespace, "three"))
	m.run(m.options)
	m.create(m.secret(limited.Namespace, "three"))
	if policies := imported(m, m.Server, "resourcequota"); len(policies) != 2 {
		m.Errorf("there are %d policies, want those of Secrets and ConfigMaps", len(policies))
	}
	m.testInterrupted("again-b")
	_, err := importer.Remove(m.Context(), m.options)
	must(m, err)
	if left := m.claims("resourcequota"); len(left) != 0 {
		m.Errorf("the claims %v are left", left)
	}
	namespace := &corev1.Namespace{}
	must(m, m.Admin.Get(m.Context(), client.ObjectKey{Name: "again-b"}, namespace))
	if _, isLeft := namespace.Annotations[quotav1alpha1.AnnotationImportedLimits+"resourcequota"]; isLeft {
		m.Errorf("a namespace still has the annotations %v", namespace.Annotations)
	}
}

// TestCreatesDuringImport creates Secrets while an import follows a raised limit and one in a further namespace. Every
// create succeeds, and in the end each Secret has one claim.
func TestCreatesDuringImport(t *testing.T) {
	t.Parallel()
	m := &migrated{T: t, Server: start(t, standalone.Options{})}
	m.options = importer.Options{Config: m.Config, From: "resourcequota", SystemNamespace: config.DefaultSystemNamespace}
	namespaces := []string{"busy-a", "busy-b"}
	for _, namespace := range namespaces {
		m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, m.secret(namespace, "before"))
	}
	limited, further := m.quota("busy-a", "compute", "count/secrets=100000"), m.quota("busy-b", "compute", "count/secrets=100000")
	m.create(limited)
	m.run(m.options)
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeAudit)
	_, err := importer.SetMode(t.Context(), m.options, quotav1alpha1.EnforcementModeEnforce)
	must(t, err)
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeEnforce)

	m.create(further)
	eventually(t, func() error { // the quota controller writes its status
		must(t, m.Admin.Get(t.Context(), client.ObjectKeyFromObject(limited), limited))
		limited.Spec.Hard = list("count/secrets=200000", "configmaps=9")
		return m.Admin.Update(t.Context(), limited)
	})
	m.waitCounted(limited, further)
	stop := m.creating(namespaces...)
	m.run(m.options)
	created := stop()
	m.waitAdopted("resourcequota", quotav1alpha1.EnforcementModeEnforce)
	eventually(t, func() error { return m.oneClaimEach(len(namespaces)+created, namespaces...) })
}

// waitCounted waits until the quota controller has counted the objects of ResourceQuotas with their present limits.
func (m *migrated) waitCounted(quotas ...*corev1.ResourceQuota) {
	m.Helper()
	for _, quota := range quotas {
		eventually(m, func() error {
			must(m, m.Admin.Get(m.Context(), client.ObjectKeyFromObject(quota), quota))
			if !equality.Semantic.DeepEqual(quota.Status.Hard, quota.Spec.Hard) {
				return fmt.Errorf("ResourceQuota %s is not counted yet: %+v", quota.Name, quota.Status)
			}
			return nil
		})
	}
}

// creating creates Secrets in namespaces, several at once. The returned function stops it, and returns their number.
func (m *migrated) creating(namespaces ...string) (stop func() int) {
	m.Helper()
	running, cancel := context.WithCancel(m.Context())
	var created atomic.Int64
	var group errgroup.Group
	for n := range 4 {
		group.Go(func() error {
			for i := 0; running.Err() == nil; i++ {
				secret := m.secret(namespaces[(n+i)%len(namespaces)], fmt.Sprintf("during-%d-%d", n, i))
				if err := m.Admin.Create(m.Context(), secret); err != nil {
					return fmt.Errorf("create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
				}
				created.Add(1)
			}
			return nil
		})
	}
	eventually(m, func() error {
		if created.Load() < 20 {
			return errors.New("there are too few Secrets yet")
		}
		return nil
	})
	return func() int {
		m.Helper()
		cancel()
		must(m, group.Wait())
		return int(created.Load())
	}
}

// oneClaimEach returns an error unless there are so many Secrets in namespaces, and each has one claim.
func (m *migrated) oneClaimEach(want int, namespaces ...string) error {
	claims := m.claims("resourcequota")
	secrets := 0
	for _, namespace := range namespaces {
		var list corev1.SecretList
		must(m, m.Admin.List(m.Context(), &list, client.InNamespace(namespace)))
		secrets += len(list.Items)
		for i := range list.Items {
			name := "Secret " + namespace + "/" + list.Items[i].Name
			if len(claims[name]) != 1 {
				return fmt.Errorf("%s has the claims %v", name, claims[name])
			}
		}
	}
	if secrets != want || len(claims) != want {
		return fmt.Errorf("there are %d Secrets, and claims for %d objects; want %d", secrets, len(claims), want)
	}
	return nil
}

// TestImportOfTwoSystems imports two systems with limits in one namespace. Each keeps its own when the other goes.
func TestImportOfTwoSystems(t *testing.T) {
	t.Parallel()
	m := &migrated{T: t, Server: start(t, standalone.Options{})}
	options := func(from string) importer.Options {
		return importer.Options{Config: m.Config, From: from, SystemNamespace: config.DefaultSystemNamespace}
	}
	operators := m.quota("both", "base", "count/secrets=3")
	operators.Labels = map[string]string{"quota.openmcp.cloud/managed-by": "quota-operator"}
	m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "both"}}, m.secret("both", "one"), m.quota("both", "own", "count/secrets=1"), operators)
	for _, from := range []string{"resourcequota", "openmcp"} {
		m.run(options(from))
		m.waitAdopted(from, quotav1alpha1.EnforcementModeAudit)
	}
	_, err := importer.Remove(t.Context(), options("openmcp"))
	must(t, err)
	eventually(t, func() error { // the leader writes the view in the background
		if left := m.claims("resourcequota"); len(left["Secret both/one"]) != 1 {
			return fmt.Errorf("without the other import, the claims are %v", left)
		}
		return nil
	})
	_, err = importer.SetMode(t.Context(), options("resourcequota"), quotav1alpha1.EnforcementModeEnforce)
	must(t, err)
	m.wantDenied(m.secret("both", "two"))
}

// TestRejectedImport checks that an import changes nothing if the server would reject a part, or already has an object.
func TestRejectedImport(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	declareEverything(t, from.Admin)
	o := importer.Options{Config: to.Config, SourceConfig: from.Config, From: "milo", SystemNamespace: config.DefaultSystemNamespace}
	wantNothing := func(reason, want string) {
		t.Helper()
		if _, err := importer.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", reason, err, want)
		}
		var registrations quotav1alpha1.ResourceRegistrationList
		must(t, to.Admin.List(t.Context(), &registrations, client.MatchingLabels{quotav1alpha1.LabelImportedFrom: "milo"}))
		if policies := imported(t, to, "milo"); len(policies) != 0 || len(registrations.Items) != 0 {
			t.Errorf("%s: it wrote %d policies and %d registrations", reason, len(policies), len(registrations.Items))
		}
	}
	o.SystemNamespace = "nowhere"
	wantNothing("another system namespace", "--system-namespace")
	o.SystemNamespace = config.DefaultSystemNamespace
	elsewhere := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Namespace: "team-a"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{ResourceType: platform.MapsType, Buckets: []quotav1alpha1.Bucket{{Amount: 1}}}},
	}}
	must(t, from.Admin.Create(t.Context(), elsewhere))
	wantNothing("a grant in a namespace that the server lacks", "team-a")
	must(t, from.Admin.Delete(t.Context(), elsewhere))
	own := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: platform.MapsType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(), BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1,
	}}
	must(t, to.Admin.Create(t.Context(), own))
	wantNothing("a resource type registered under another name", "already registered")
	must(t, to.Admin.Delete(t.Context(), own))
	own = &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "maps"}, Spec: own.Spec}
	must(t, to.Admin.Create(t.Context(), own))
	wantNothing("a registration of the same name", "ResourceRegistration maps")
}

// TestImportedAmounts uses the form of imported policies for Pods, which a standalone server lacks. The amount of an
// object depends on the annotation of its namespace. A changed description applies the policy to existing objects.
func TestImportedAmounts(t *testing.T) {
	t.Parallel()
	const annotation = quotav1alpha1.AnnotationImportedLimits + "test"
	f := newFollowedWorld(t, 9, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("namespaceObject.metadata.?annotations[?%q].hasValue()", annotation)}}
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].AmountExpression = fmt.Sprintf(
			`"fleets" in namespaceObject.metadata.?annotations[?%q].orValue("").split(",") ? dyn(trigger.spec.replicas) : dyn(0)`, annotation)
	})
	f.mustCreate(f.fleet("a", 2))
	f.mustCreate(f.fleet("b", 3))
	f.wantBucket(9, 0, 9, 0)
	limit := func(value string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.fleet("a", 2).GetNamespace()}}
		must(t, admin.Patch(f.ctx, namespace, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, value))))
		change(t, f.policy, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.Trigger.Conditions[0].Message = "revision " + value })
	}
	limit("boats,fleets")
	f.wantBucket(9, 5, 4, 2)
	limit("boats")
	f.wantBucket(9, 0, 9, 0)
}
