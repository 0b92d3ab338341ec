package status

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

func TestParseMetrics(t *testing.T) {
	got, err := parseMetrics([]byte(`# HELP bursar_ledgers_outdated Ledgers.
# TYPE bursar_ledgers_outdated gauge
bursar_ledgers_outdated{reason="a } b"} 2
bursar_ledgers_outdated{reason="c"} 1
# TYPE bursar_ready gauge
bursar_ready 1
bursar_webhook_certificate_expiry_timestamp_seconds 1.8e+09
go_goroutines 3
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"bursar_ledgers_outdated": 3, "bursar_ready": 1, "bursar_webhook_certificate_expiry_timestamp_seconds": 1.8e9}
	if diff := cmp.Diff(want, got.sums); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parseMetrics([]byte("<html>\n")); err == nil {
		t.Error("a page in HTML passed as metrics")
	}
}

func TestFailures(t *testing.T) {
	ready := metav1.Condition{Type: quotav1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	broken := metav1.Condition{Type: quotav1alpha1.ConditionApplicable, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonEvaluationFailed, Message: "no such key"}
	notAllowed := metav1.Condition{Type: quotav1alpha1.ConditionApplicable, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonClaimNotAllowed}
	lost := metav1.Condition{Type: quotav1alpha1.ConditionParentContextReady, Status: metav1.ConditionFalse, Reason: quotav1alpha1.ReasonControlPlaneNotRegistered}
	works := &quotav1alpha1.EvaluationStatus{LastSuccessTime: &metav1.Time{}}
	for name, tt := range map[string]struct {
		reason     string
		conditions []metav1.Condition
		evaluation *quotav1alpha1.EvaluationStatus
		want       State
	}{
		"Works":       {"nothing failed", []metav1.Condition{ready}, nil, OK},
		"New":         {"the operator may be down", nil, nil, Failed},
		"WrongObject": {"it worked for a later object", []metav1.Condition{ready, broken}, works, Warning},
		"WrongPolicy": {"it has not worked since", []metav1.Condition{ready, broken}, &quotav1alpha1.EvaluationStatus{}, Failed},
		"NoParent":    {"objects get no grant in another control plane", []metav1.Condition{ready, lost}, nil, Failed},
		"NotAllowed":  {"a registration denies all its claims", []metav1.Condition{ready, notAllowed}, works, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			var f failures
			f.add("ClaimCreationPolicy p", true, tt.conditions, tt.evaluation)
			if got := f.check("policies").State; got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.reason, got, tt.want)
			}
		})
	}
}

// TestAdoptionFailures proves that a policy that fails on existing objects is reported before it denies a request.
func TestAdoptionFailures(t *testing.T) {
	const complete, running = quotav1alpha1.AdoptionComplete, quotav1alpha1.AdoptionRunning
	for name, tt := range map[string]struct {
		reason   string
		adoption *quotav1alpha1.AdoptionStatus
		want     Check
	}{
		"NotYet": {"it has looked at nothing", nil, Check{State: OK}},
		"None":   {"every object has a claim", &quotav1alpha1.AdoptionStatus{State: complete, Processed: 2, Total: 2}, Check{State: OK}},
		"Former": {
			"the figures are of the policy before its change", &quotav1alpha1.AdoptionStatus{State: complete, Failed: 2, Processed: 2, Total: 2, ObservedGeneration: -1},
			Check{State: OK},
		},
		"Some": {
			"some objects are wrong", &quotav1alpha1.AdoptionStatus{State: complete, Failed: 1, Processed: 2, Total: 2, Message: "PVC a: no such key"},
			Check{State: Warning, Details: []string{"ClaimCreationPolicy p: it fails on 1 of 2 existing objects, which do not count: PVC a: no such key"}},
		},
		"All": {
			"the policy is wrong", &quotav1alpha1.AdoptionStatus{State: complete, Failed: 200, Processed: 200, Total: 200, Message: "PVC a: no such key"},
			Check{State: Failed, Details: []string{"ClaimCreationPolicy p: it fails on 200 of 200 existing objects, which do not count: PVC a: no such key"}},
		},
		"AllSoFar": {
			"the rest will not fare better", &quotav1alpha1.AdoptionStatus{State: running, Failed: 20, Processed: 20, Total: 200},
			Check{State: Failed, Details: []string{"ClaimCreationPolicy p: it fails on 20 of 20 existing objects, which do not count"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f failures
			f.addAdoption("ClaimCreationPolicy p", &quotav1alpha1.ClaimCreationPolicy{Status: quotav1alpha1.ClaimCreationPolicyStatus{Adoption: tt.adoption}})
			tt.want.Name, tt.want.Text = "policies", "0 enabled, 0 disabled"
			if diff := cmp.Diff(tt.want, f.check("policies")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

// TestLeaderWithoutReplicas proves that a leader counts for nothing on a cluster while no replica is alive: after a
// crash, its Lease stays valid for a while.
func TestLeaderWithoutReplicas(t *testing.T) {
	lease := func(name string, labels map[string]string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: name, Labels: labels},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("a"), RenewTime: new(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: new(int32(15)),
			},
		}
	}
	replica := map[string]string{quotav1alpha1.LabelReplica: ""}
	for name, tt := range map[string]struct {
		reason       string
		renewed      time.Time // by the replica
		isStandalone bool
		want         State
	}{
		"Alive":      {"it renews its Lease", time.Now(), false, OK},
		"Dead":       {"it has stopped, and the Lease of the leader is still valid", time.Now().Add(-time.Minute), false, Failed},
		"Standalone": {"the server that answers is a replica", time.Now().Add(-time.Minute), true, OK},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientset(lease(naming.LeaderLease, nil, time.Now()), lease("replica-a", replica, tt.renewed))
			r := &reader{client: api, systemNamespace: "quota", isStandalone: tt.isStandalone}
			if got := r.leader(t.Context()); got.State != tt.want {
				t.Errorf("%s: got %+v, want %s", tt.reason, got, tt.want)
			}
		})
	}
}

// TestLagOfViews proves that the check names figures that are old, and says nothing of them if this operator, which is
// not the leader, does not know.
func TestLagOfViews(t *testing.T) {
	types := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		metrics string
		want    Check
	}{
		"Unknown": {"bursar_ready 1\n", Check{State: OK, Text: "Bursar has processed all objects"}},
		"Current": {"bursar_view_lag_seconds 2.4\n", Check{State: OK, Text: "Bursar has processed all objects; the shown figures are current"}},
		"Burst": {"bursar_view_lag_seconds 51.9\n", Check{State: Warning, Text: "Bursar has processed all objects", Details: []string{
			"the shown figures are up to 52s old: bursar usage, AllowanceBuckets and EffectiveResourceGrants follow at ten consumers a second, " +
				"while requests are decided by the current ones",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parseMetrics([]byte(tt.metrics))
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{objects: clientfake.NewClientBuilder().WithScheme(types).Build(), metrics: m}
			tt.want.Name = "lag"
			if diff := cmp.Diff(tt.want, r.lag(t.Context())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSharedUser proves that the check of the webhooks warns if a person may have the user of the operator.
func TestSharedUser(t *testing.T) {
	for user, want := range map[string]bool{"system:serviceaccount:bursar-system:bursar": false, "kubernetes-admin": true, "": false} {
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if user != "" {
			configuration.Webhooks = []admissionregistrationv1.ValidatingWebhook{{MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: notByBursar, Expression: notByBursarPrefix + strconv.Quote(user)},
			}}}
		}
		r := &reader{webhooks: configuration}
		if got := r.sharedUser(); (got != "") != want {
			t.Errorf("user %q: got %q", user, got)
		}
		r.isStandalone = true
		if got := r.sharedUser(); got != "" {
			t.Errorf("user %q of a standalone server: got %q", user, got)
		}
	}
}
