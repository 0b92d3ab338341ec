package usage

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

type stopped time.Time

func (s stopped) Now() time.Time { return time.Time(s) }

func TestGrantEnds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	grants := fake.NewClientBuilder().WithScheme(scheme)
	for name, end := range map[string]int64{"over": 900, "soon": 1100, "later": 1200, "latest": 1300, "endless": 0} {
		grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "acme"}}
		grant.Spec.ConsumerRef, grant.Spec.Allowances = project("web"), []quotav1alpha1.Allowance{{ResourceType: "vcpus"}}
		if end > 0 {
			grant.Spec.NotAfter = &metav1.Time{Time: time.Unix(end, 0)}
		}
		apimeta.SetStatusCondition(&grant.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
		grants.WithObjects(grant)
	}
	ends := &GrantEnds{Cache: grants.Build(), Leadership: leader(true), Clock: stopped(time.Unix(1000, 0)), Max: 2, Log: logr.Discard()}
	want := `
# HELP quota_grant_end_timestamp_seconds When the next allowance of a grant ends, as a Unix time.
# TYPE quota_grant_end_timestamp_seconds gauge
quota_grant_end_timestamp_seconds{consumer_group="g",consumer_kind="Project",consumer_name="web",consumer_namespace="",grant="soon",grant_namespace="acme"} 1100
quota_grant_end_timestamp_seconds{consumer_group="g",consumer_kind="Project",consumer_name="web",consumer_namespace="",grant="later",grant_namespace="acme"} 1200
`
	if err := testutil.CollectAndCompare(ends, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	ends.Leadership = leader(false)
	if n := testutil.CollectAndCount(ends); n != 0 {
		t.Errorf("another process has %d series, want none", n)
	}
}
