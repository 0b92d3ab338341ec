package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// BenchmarkQuotaUsage asks for the objects of a consumer with 10,000 counted ConfigMaps in ten namespaces, without
// claims, over the API. It reports the time of the first page of 100 objects, as an administrator and as a tenant who
// sees one of the namespaces. Then it reports that of the page in the console, and that of all pages of 1,000 objects.
func BenchmarkQuotaUsage(b *testing.B) {
	const objects, namespaces = 10_000, 10
	m := newMeasured(b)
	consumer := platform.Consumer(m.name + "-quiet")
	var group errgroup.Group
	group.SetLimit(32)
	for n := range namespaces {
		namespace := fmt.Sprintf("%s-%d", m.name, n)
		m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for i := range objects / namespaces {
			group.Go(func() error {
				return admin.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i), Namespace: namespace, Labels: map[string]string{"of": m.name}}})
			})
		}
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	m.countMaps(consumer)
	spec := quotav1alpha1.QuotaUsageSpec{ConsumerRef: &consumer, ResourceType: m.name + "/slots"}
	err := wait.PollUntilContextTimeout(b.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		page := m.ask(admin, spec)
		return page.Remaining == objects-quotav1alpha1.UsageLimitDefault, nil
	})
	if err != nil {
		b.Fatal(err)
	}

	tenant := m.tenantOf(m.name + "-3")
	var first, ofTenant, ofConsole, all time.Duration
	small := spec
	small.Limit = 50
	for range b.N {
		first += timeOf(func() { m.ask(admin, spec) })
		ofTenant += timeOf(func() {
			if page := m.ask(tenant, spec); len(page.Objects) != quotav1alpha1.UsageLimitDefault || page.Hidden.Objects != objects-objects/namespaces {
				b.Fatalf("a tenant sees %d objects, and %d are hidden", len(page.Objects), page.Hidden.Objects)
			}
		})
		ofConsole += timeOf(func() { m.ask(tenant, small) })
		all += timeOf(func() {
			next := spec
			next.Limit = quotav1alpha1.UsageLimitMax
			for pages := 1; ; pages++ {
				page := m.ask(admin, next)
				if next.Continue = page.Continue; next.Continue == "" {
					if pages != objects/quotav1alpha1.UsageLimitMax {
						b.Fatalf("there are %d pages", pages)
					}
					return
				}
			}
		})
	}
	report := func(took time.Duration, unit string) {
		b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), unit)
	}
	report(first, "first-ms")
	report(ofTenant, "tenant-ms")
	report(ofConsole, "console-ms")
	report(all, "all-ms")
	b.ReportMetric(0, "ns/op") // it would be the sum
}

func timeOf(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

// countMaps makes the labelled ConfigMaps count, without claims. The grant of the other consumer stays unused.
func (m *measured) countMaps(consumer quotav1alpha1.ConsumerRef) {
	m.Helper()
	registration := &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	if err := admin.Get(m.Context(), client.ObjectKeyFromObject(registration), registration); err != nil {
		m.Fatal(err)
	}
	registration.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}}
	if err := admin.Update(m.Context(), registration); err != nil {
		m.Fatal(err)
	}
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
	policy.Spec.Claims = quotav1alpha1.ClaimsModeNone
	policy.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"}
	policy.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: fmt.Sprintf("has(trigger.metadata.labels) && trigger.metadata.labels[?'of'].orValue('') == %q", m.name)}}
	policy.Spec.Target.ResourceClaimTemplate.Spec = quotav1alpha1.ResourceClaimTemplateSpec{
		ConsumerRef: consumer, Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: m.name + "/slots", Amount: 1}},
	}
	m.create(policy)
	m.Cleanup(func() { _ = admin.Delete(context.Background(), policy) })
}

// tenantOf returns the client of a user who sees the figures of the consumer, and the objects of one namespace.
func (m *measured) tenantOf(namespace string) client.Client {
	m.Helper()
	user := m.name + "-tenant"
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	figures := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"effectiveresourcegrants"}, Verbs: []string{"get"}},
		{APIGroups: []string{quotav1alpha1.GroupName}, Resources: []string{"quotausages"}, Verbs: []string{"create"}},
	}}
	m.create(figures)
	m.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}})
	m.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bursar-tenant-viewer"},
	})
	api, err := started.As(rest.ImpersonationConfig{UserName: user})
	if err != nil {
		m.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(m.Context(), 10*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		usage := &quotav1alpha1.QuotaUsage{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-", Namespace: namespace}, Spec: quotav1alpha1.QuotaUsageSpec{Namespace: namespace}}
		return api.Create(ctx, usage, client.DryRunAll) == nil, nil
	})
	if err != nil {
		m.Fatal(err)
	}
	return api
}

// ask returns a page.
func (m *measured) ask(api client.Client, spec quotav1alpha1.QuotaUsageSpec) *quotav1alpha1.QuotaUsageStatus {
	m.Helper()
	usage := &quotav1alpha1.QuotaUsage{ObjectMeta: metav1.ObjectMeta{GenerateName: "u-", Namespace: metav1.NamespaceDefault}, Spec: spec}
	if err := api.Create(m.Context(), usage, client.DryRunAll); err != nil {
		m.Fatal(err)
	}
	return usage.Status
}
