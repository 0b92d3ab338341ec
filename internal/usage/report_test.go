package usage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

func shown(name, consumer, resourceType string, used, limit int64, display *quotav1alpha1.DisplayedQuota) *quotav1alpha1.EffectiveResourceGrant {
	e := &quotav1alpha1.EffectiveResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: name}}
	e.Spec.ConsumerRef, e.Spec.ResourceType = project(consumer), "compute.example.com/"+resourceType
	e.Status = quotav1alpha1.EffectiveResourceGrantStatus{TotalAllocated: used, TotalLimit: limit, Available: max(0, limit-used), Display: display}
	return e
}

// countsForWeb answers questions about the project web: one object counts, and two others are hidden.
func countsForWeb(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
	asked := object.(*quotav1alpha1.QuotaUsage)
	asked.Status = &quotav1alpha1.QuotaUsageStatus{}
	if consumer := asked.Spec.ConsumerRef; consumer != nil && *consumer == project("web") {
		asked.Status.Objects = []quotav1alpha1.QuotaUsageObject{{
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "Pod", Namespace: "team", Name: "p1"},
			Policies:    []string{"pods"}, Amounts: []quotav1alpha1.UsedAmount{{ResourceType: "compute.example.com/vcpus", Amount: 5000}},
		}}
		asked.Status.Hidden = &quotav1alpha1.HiddenUsage{Objects: 2, Amounts: []quotav1alpha1.UsedAmount{{ResourceType: "compute.example.com/vcpus", Amount: 3000}}}
	}
	return nil
}

func TestReport(t *testing.T) {
	types := runtime.NewScheme()
	if err := errors.Join(quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types), corev1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	inNamespace := shown("e", "api", "vcpus", 0, 0, nil)
	inNamespace.Spec.ConsumerRef.Namespace, inNamespace.Namespace = "team", "team"
	claim := func(name, consumer, resourceType string, amount int64, granted metav1.ConditionStatus, reason string) *quotav1alpha1.ResourceClaim {
		c := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: name}}
		c.Spec.ConsumerRef, c.Spec.ResourceRef = project(consumer), quotav1alpha1.UnversionedObjectReference{Kind: "Instance", Name: name}
		c.Spec.Requests = []quotav1alpha1.ResourceRequest{{ResourceType: "compute.example.com/" + resourceType, Amount: amount}}
		apimeta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionGranted, Status: granted, Reason: reason})
		return c
	}
	elsewhere := claim("t1", "db", "instances", 1000, metav1.ConditionTrue, "Granted")
	elsewhere.Namespace = "team"
	allocation := &quotav1alpha1.ResourceQuotaAllocation{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	allocation.Status.Allocated = corev1.ResourceQuotaStatus{
		Hard: corev1.ResourceList{"requests.cpu": resource.MustParse("4")}, Used: corev1.ResourceList{"requests.cpu": resource.MustParse("500m")},
	}
	raise := &openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "more", Annotations: map[string]string{openmcpv1alpha1.AnnotationEffect: "pods: 3"}}}
	raise.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("5")}
	apimeta.SetStatusCondition(&raise.Status.Conditions, metav1.Condition{Type: openmcpv1alpha1.ConditionEffective, Status: metav1.ConditionTrue, Reason: openmcpv1alpha1.ReasonCapReached})
	hidden := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: "hidden"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: project("hidden"), Allowances: []quotav1alpha1.Allowance{{ResourceType: "compute.example.com/vcpus", Buckets: []quotav1alpha1.Bucket{{Amount: 4}, {Amount: 2}}}},
	}}
	apimeta.SetStatusCondition(&hidden.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
	stored := &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(project("hidden"))}}
	stored.Spec.Observations = []quotav1alpha1.LedgerObservation{
		{Kind: "resourceclaims", Demands: []quotav1alpha1.LedgerDemand{{ResourceType: "compute.example.com/vcpus", Amount: 1, Objects: 1}}},
		{Kind: "virtualmachines", Demands: []quotav1alpha1.LedgerDemand{{ResourceType: "compute.example.com/vcpus", Amount: 2, Objects: 1}}},
	}
	api := fake.NewClientBuilder().WithScheme(types).WithObjects(
		shown("a", "web", "vcpus", 15990, 16000, &quotav1alpha1.DisplayedQuota{TotalAllocated: "15.99 vCPUs", TotalLimit: "16 vCPUs", Available: "0.01 vCPUs"}),
		shown("b", "web", "instances", 7, 7, nil), shown("c", "db", "instances", 1001, 1000, nil), shown("d", "free", "instances", 1, 0, nil), inNamespace,
		shown("f", "exact", "instances", 29, 100, nil), shown("g", "exact", "instances", 29, 100, nil),
		claim("i1", "web", "vcpus", 4000, metav1.ConditionTrue, "Granted"), claim("i2", "web", "vcpus", 11990, metav1.ConditionTrue, "Granted"),
		claim("i3", "web", "vcpus", 2500, metav1.ConditionFalse, quotav1alpha1.ReasonQuotaExceeded),
		elsewhere, allocation, raise, hidden, stored,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quota"}},
	).WithIndex(&quotav1alpha1.ResourceClaim{}, "spec.consumerRef.name", func(o client.Object) []string {
		return []string{o.(*quotav1alpha1.ResourceClaim).Spec.ConsumerRef.Name}
	}).WithInterceptorFuncs(interceptor.Funcs{Create: countsForWeb}).Build()
	tests := map[string]struct {
		filter Filter
		format Format
		want   string
	}{
		"all": {Filter{}, "", `CONSUMER                       RESOURCE TYPE                   USED          LIMIT      AVAILABLE    UTILIZATION       WAITING
Project/free                   compute.example.com/instances   1             0          0            nothing granted   0
Project/db                     compute.example.com/instances   1001          1000       0            101%              0
Project/web                    compute.example.com/instances   7             7          0            100%              0
Project/web                    compute.example.com/vcpus       15.99 vCPUs   16 vCPUs   0.01 vCPUs   99%               1
Project/hidden                 compute.example.com/vcpus       3             6          3            50%               0
Project/exact                  compute.example.com/instances   29            100        71           29%               0
ResourceQuotaAllocation/acme   requests.cpu                    500m          4          3500m        13%               -
team/Project/api               compute.example.com/vcpus       0             0          0            0%                0

QUOTAINCREASE   ASKED     IN EFFECT   STATE
team/more       pods: 5   pods: 3     CapReached

The quota of Project/hidden is shown in no namespace: the events of ResourceGrant quota/hidden say why.
`},
		"near": {Filter{NearPercent: 100}, "", `CONSUMER       RESOURCE TYPE                   USED          LIMIT      AVAILABLE    UTILIZATION       WAITING
Project/free   compute.example.com/instances   1             0          0            nothing granted   0
Project/db     compute.example.com/instances   1001          1000       0            101%              0
Project/web    compute.example.com/instances   7             7          0            100%              0
Project/web    compute.example.com/vcpus       15.99 vCPUs   16 vCPUs   0.01 vCPUs   99%               1

The quota of Project/hidden is shown in no namespace: the events of ResourceGrant quota/hidden say why.
`},
		"those that wait first": {Filter{SortBy: SortByWaiting, Limit: 1, ResourceType: "vcpus"}, "", `CONSUMER      RESOURCE TYPE               USED          LIMIT      AVAILABLE    UTILIZATION   WAITING
Project/web   compute.example.com/vcpus   15.99 vCPUs   16 vCPUs   0.01 vCPUs   99%           1

The quota of Project/hidden is shown in no namespace: the events of ResourceGrant quota/hidden say why.
Left out by --limit: 2 more.
`},
		"claims": {Filter{WithClaims: true, Consumer: "web"}, "", `CONSUMER      CLAIM      FOR           REQUESTS            STATE
Project/web   quota/i3   Instance/i3   vcpus=2.5 vCPUs     QuotaExceeded
Project/web   quota/i2   Instance/i2   vcpus=11.99 vCPUs   Granted
Project/web   -          team/Pod/p1   vcpus=5 vCPUs       Granted
Project/web   quota/i1   Instance/i1   vcpus=4 vCPUs       Granted

Not shown to you: 2 objects that count, with vcpus=3 vCPUs.
`},
		"claims in a namespace that does not show their quota": {Filter{WithClaims: true, Namespace: "team", Consumer: "db"}, "", `CONSUMER     CLAIM     FOR           REQUESTS         STATE
Project/db   team/t1   Instance/t1   instances=1000   Granted
`},
		"claims on what is shown elsewhere": {Filter{WithClaims: true, Namespace: "quota", Consumer: "db"}, "", `CONSUMER     CLAIM     FOR           REQUESTS         STATE
Project/db   team/t1   Instance/t1   instances=1000   Granted
`},
		"wide": {Filter{Consumer: "web", ResourceType: "vcpus"}, FormatWide, `CONSUMER      RESOURCE TYPE               USED          LIMIT      AVAILABLE    UTILIZATION   WAITING   GROUP   USED (BASE)   LIMIT (BASE)   NAME   OWNER   DESCRIPTION
Project/web   compute.example.com/vcpus   15.99 vCPUs   16 vCPUs   0.01 vCPUs   99%           1         g       15990         16000          -      -       -
`},
		"by kind":       {Filter{Consumer: "project/db"}, "", "CONSUMER     RESOURCE TYPE                   USED   LIMIT   AVAILABLE   UTILIZATION   WAITING\nProject/db   compute.example.com/instances   1001   1000    0           101%          0\n"},
		"whole type":    {Filter{Consumer: "db", ResourceType: "compute.example.com/instances"}, FormatYAML, "items:\n- available: 0\n  consumerRef:\n    apiGroup: g\n    kind: Project\n    name: db\n  limit: 1000\n  resourceType: compute.example.com/instances\n  used: 1001\n  utilization: 1.001\n  waiting: 0\n"},
		"nothing given": {Filter{Consumer: "free"}, FormatYAML, "items:\n- available: 0\n  consumerRef:\n    apiGroup: g\n    kind: Project\n    name: free\n  limit: 0\n  resourceType: compute.example.com/instances\n  used: 1\n  utilization: null\n  waiting: 0\n"},
		"one percent":   {Filter{Consumer: "exact"}, "", "CONSUMER        RESOURCE TYPE                   USED   LIMIT   AVAILABLE   UTILIZATION   WAITING\nProject/exact   compute.example.com/instances   29     100     71          29%           0\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			report, err := Read(t.Context(), api, tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if err := report.Print(&got, tt.format); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknown(t *testing.T) {
	types := runtime.NewScheme()
	if err := errors.Join(quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types), corev1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(types).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quota"}},
		shown("a", "web", "vcpus", 1, 2, nil), shown("b", "shop", "instances", 7, 7, nil),
	).WithIndex(&quotav1alpha1.ResourceClaim{}, "spec.consumerRef.name", func(client.Object) []string { return nil }).Build()
	for want, filter := range map[string]Filter{
		`no quota is granted to, or used by, a consumer "projet/web"; did you mean project/web?`:                      {Consumer: "projet/web"},
		`no quota is granted to, or used by, a consumer "shpo"; did you mean project/shop?`:                           {Consumer: "shpo"},
		`no quota is granted to, or used by, a consumer "other/thing"; known kinds are Project`:                       {Consumer: "other/thing"},
		`there is no resource type "vcpu"; did you mean compute.example.com/vcpus?`:                                   {ResourceType: "vcpu"},
		`there is no namespace "qouta"; did you mean quota?`:                                                          {Namespace: "qouta"},
		`there is no resource type "disks"; known types are compute.example.com/instances, compute.example.com/vcpus`: {ResourceType: "disks"},
	} {
		_, err := Read(t.Context(), api, filter)
		if unknown := (*UnknownError)(nil); !errors.As(err, &unknown) || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", filter, err, want)
		}
	}
}

// A wide table has what people call a resource type. Each row is one line.
func TestNamesInWideTable(t *testing.T) {
	display := &quotav1alpha1.DisplayedQuota{
		TotalAllocated: "1 machine", TotalLimit: "10 machines", Available: "9 machines", Name: "Virtual\nmachines", Owner: "compute.example.com",
		Description: "Machines\tof all kinds,\nin every region,\x1b with their disks, addresses, snapshots and backups",
	}
	report := &Report{Items: []Item{{ConsumerRef: project("web"), ResourceType: "machines", Used: 1, Limit: 10, Available: 9, Display: display}}}
	var got strings.Builder
	if err := report.Print(&got, FormatWide); err != nil {
		t.Fatal(err)
	}
	want := `CONSUMER      RESOURCE TYPE   USED        LIMIT         AVAILABLE    UTILIZATION   WAITING   GROUP   USED (BASE)   LIMIT (BASE)   NAME               OWNER                 DESCRIPTION
Project/web   machines        1 machine   10 machines   9 machines   10%           -         g       1             10             Virtual machines   compute.example.com   Machines of all kinds, in every region, with their disks, addresses, snapshots …
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Users write some texts, and a name may have 253 characters: neither changes what the other rows show.
func TestPlainTable(t *testing.T) {
	long := strings.Repeat("n", 230)
	var text strings.Builder
	if err := PrintTable(&text, [][]string{{"NAME", "REASON"}, {"a", "1\u202e00\u200b0"}, {long, "more"}}); err != nil {
		t.Fatal(err)
	}
	if want := "NAME   REASON\na      1000\n" + long + "   more\n"; text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
