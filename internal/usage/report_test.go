package usage

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func shown(name, consumer, resourceType string, used, limit int64, display *quotav1alpha1.DisplayedQuota) *quotav1alpha1.EffectiveResourceGrant {
	e := &quotav1alpha1.EffectiveResourceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: name}}
	e.Spec.ConsumerRef, e.Spec.ResourceType = project(consumer), "compute.example.com/"+resourceType
	e.Status = quotav1alpha1.EffectiveResourceGrantStatus{TotalAllocated: used, TotalLimit: limit, Available: max(0, limit-used), Display: display}
	return e
}

func TestReport(t *testing.T) {
	types := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	inNamespace := shown("e", "api", "vcpus", 0, 0, nil)
	inNamespace.Spec.ConsumerRef.Namespace, inNamespace.Namespace = "team", "team"
	api := fake.NewClientBuilder().WithScheme(types).WithObjects(
		shown("a", "web", "vcpus", 15990, 16000, &quotav1alpha1.DisplayedQuota{TotalAllocated: "15.99 vCPUs", TotalLimit: "16 vCPUs", Available: "0.01 vCPUs"}),
		shown("b", "web", "instances", 7, 7, nil), shown("c", "db", "instances", 1001, 1000, nil), shown("d", "free", "instances", 1, 0, nil), inNamespace,
		shown("f", "exact", "instances", 29, 100, nil), shown("g", "exact", "instances", 29, 100, nil),
	).Build()
	tests := map[string]struct {
		filter Filter
		format Format
		want   string
	}{
		"all": {Filter{}, "", `CONSUMER           RESOURCE TYPE                   USED          LIMIT      AVAILABLE    UTILIZATION
Project/free       compute.example.com/instances   1             0          0            nothing granted
Project/db         compute.example.com/instances   1001          1000       0            101%
Project/web        compute.example.com/instances   7             7          0            100%
Project/web        compute.example.com/vcpus       15.99 vCPUs   16 vCPUs   0.01 vCPUs   99%
Project/exact      compute.example.com/instances   29            100        71           29%
team/Project/api   compute.example.com/vcpus       0             0          0            0%
`},
		"wide": {Filter{Consumer: "web", ResourceType: "vcpus"}, FormatWide, `CONSUMER      RESOURCE TYPE               USED          LIMIT      AVAILABLE    UTILIZATION   GROUP   USED (BASE)   LIMIT (BASE)
Project/web   compute.example.com/vcpus   15.99 vCPUs   16 vCPUs   0.01 vCPUs   99%           g       15990         16000
`},
		"by kind":       {Filter{Consumer: "project/db"}, "", "CONSUMER     RESOURCE TYPE                   USED   LIMIT   AVAILABLE   UTILIZATION\nProject/db   compute.example.com/instances   1001   1000    0           101%\n"},
		"other kind":    {Filter{Consumer: "organization/db"}, FormatJSON, "{\n    \"items\": []\n}\n"},
		"whole type":    {Filter{Consumer: "db", ResourceType: "compute.example.com/instances"}, FormatYAML, "items:\n- available: 0\n  consumerRef:\n    apiGroup: g\n    kind: Project\n    name: db\n  limit: 1000\n  resourceType: compute.example.com/instances\n  used: 1001\n  utilization: 1.001\n"},
		"nothing given": {Filter{Consumer: "free"}, FormatYAML, "items:\n- available: 0\n  consumerRef:\n    apiGroup: g\n    kind: Project\n    name: free\n  limit: 0\n  resourceType: compute.example.com/instances\n  used: 1\n  utilization: null\n"},
		"one percent":   {Filter{Consumer: "exact"}, "", "CONSUMER        RESOURCE TYPE                   USED   LIMIT   AVAILABLE   UTILIZATION\nProject/exact   compute.example.com/instances   29     100     71          29%\n"},
		"namespace":     {Filter{Namespace: "team"}, "", "CONSUMER           RESOURCE TYPE               USED   LIMIT   AVAILABLE   UTILIZATION\nteam/Project/api   compute.example.com/vcpus   0      0       0           0%\n"},
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
