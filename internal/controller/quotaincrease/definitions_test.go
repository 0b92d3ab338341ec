package quotaincrease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// apiServer has an answer for each definition, by the label in its template.
type apiServer struct {
	answers map[string]error
	asked   int
}

func (s *apiServer) Check(_ context.Context, path *field.Path, quota *corev1.ResourceQuota) (field.ErrorList, error) {
	s.asked++
	err := s.answers[quota.Labels["definition"]]
	if apierrors.IsInvalid(err) {
		return field.ErrorList{field.Invalid(path, "it", "is wrong")}, nil
	}
	return nil, err
}

var (
	errPolicy  = apierrors.NewForbidden(schema.GroupResource{Resource: "resourcequotas"}, "", errors.New("the cluster's policy wants another label"))
	errInvalid = apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceQuota"}, "", nil)
	errDown    = apierrors.NewInternalError(errors.New("failed calling webhook"))
)

// validatedConfig has a definition of each name. Its template has the name as a label.
func validatedConfig(names ...string) *openmcpv1alpha1.QuotaServiceConfig {
	c := &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "platform", UID: "1", Generation: 1}}
	for _, name := range names {
		c.Spec.Quotas = append(c.Spec.Quotas, openmcpv1alpha1.QuotaDefinition{
			Name: name, Mode: openmcpv1alpha1.ModeMaximum, Template: openmcpv1alpha1.QuotaTemplate{Labels: map[string]string{"definition": name}},
		})
	}
	return c
}

// The API server's answer about a definition affects no other definition.
func TestValidate(t *testing.T) {
	tests := map[string]struct {
		reason string
		answer error
		want   validityState
		says   string
		again  time.Duration
	}{
		"Good":    {"there is nothing against it, for good", nil, valid, "", 0},
		"Invalid": {"it cannot be, for good", errInvalid, invalid, "spec.quotas[0].template.spec: Invalid value", 0},
		"Policy":  {"a policy may change", errPolicy, invalid, "spec.quotas[0].template: resourcequotas is forbidden: the cluster's policy wants another label", revalidateInterval},
		"Down":    {"nobody can tell", errDown, undetermined, "failed calling webhook", validateRetry},
		"Timeout": {"nobody can tell", context.DeadlineExceeded, undetermined, "deadline exceeded", validateRetry},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{answers: map[string]error{"odd": tt.answer}}
			d := &Definitions{Specs: server, onChange: func(context.Context) {}}
			results, again := d.validate(t.Context(), validatedConfig("odd", "good"))
			if got := results[0]; got.state != tt.want || !strings.Contains(got.message, tt.says) {
				t.Errorf("%s: got %+v, want %d that says %q", tt.reason, got, tt.want, tt.says)
			}
			if results[1] != (validity{}) {
				t.Errorf("the result of the other one is %+v", results[1])
			}
			if again < tt.again || again > 2*tt.again {
				t.Errorf("%s: it is asked again after %s, want about %s", tt.reason, again, tt.again)
			}
		})
	}
}

// Definitions remembers a result until it expires, and announces a change of it.
func TestRevalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answers: map[string]error{"gold": errPolicy}}
		changes := 0
		d := &Definitions{Specs: server, onChange: func(context.Context) { changes++ }}
		config := validatedConfig("gold")
		want := func(reason string, kind validityState, asked, changed int) {
			t.Helper()
			results, _ := d.validate(t.Context(), config)
			if results[0].state != kind || server.asked != asked || changes != changed {
				t.Errorf("%s: got %+v, asked %d times, and %d changes, want %d, %d and %d", reason, results[0], server.asked, changes, kind, asked, changed)
			}
		}
		want("it is new", invalid, 1, 1)
		time.Sleep(revalidateInterval / 2)
		want("it is remembered", invalid, 1, 1)
		time.Sleep(revalidateInterval)
		want("it is asked again, and is the same", invalid, 2, 1)
		server.answers["gold"] = nil
		time.Sleep(2 * revalidateInterval)
		want("the policy is gone", valid, 3, 2)
		time.Sleep(10 * revalidateInterval)
		want("what is good is good", valid, 3, 2)
		config.Generation++
		if results, known := d.validities(config); known || results[0].state != unvalidated {
			t.Errorf("the result of the next version is %+v already", results)
		}
		want("the next version", valid, 4, 3)
		d.forget(config.Name)
		want("one that came back", valid, 5, 4)
	})
}

// While the validity of a definition is unknown, a namespace does not change, and only the configuration reports it.
func TestStaysUntilDecided(t *testing.T) {
	config, more := platform(openmcpv1alpha1.ModeCumulative, "count/secrets=10"), quotaIncrease("more", "count/secrets=5")
	w := newWorld(t, config, more)
	w.settled()
	w.wantHard("it is usable", "base", "count/secrets=15")
	config.Generation, config.Spec.Quotas[0].Template.Spec.Hard = 2, amounts("count/secrets=20")
	if err := w.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	stays := func(reason string) {
		t.Helper()
		w.wantHard(reason, "base", "count/secrets=15")
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(more), more); err != nil {
			t.Fatal(err)
		}
		if got := more.Status.Conditions[0].Reason; got != openmcpv1alpha1.ReasonInEffect || len(w.namespaceLabels()) != 3 {
			t.Errorf("%s: the increase says %s, and the namespace has the labels %v", reason, got, w.namespaceLabels())
		}
	}
	if _, err := w.Reconcile(t.Context(), requestFor(team)[0]); err != nil {
		t.Fatal(err)
	}
	stays("nobody has asked")
	server := &apiServer{answers: map[string]error{"base": errDown}}
	w.Definitions.Specs = server
	w.settled()
	stays("there is no answer")
	status := &statusReconciler{Client: w.Client, Definitions: w.Definitions, outcomes: &w.outcomes}
	result, err := status.Reconcile(t.Context(), requestFor(config.Name)[0])
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > 2*validateRetry {
		t.Errorf("it is asked again after %s, %v", result.RequeueAfter, err)
	}
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Fatal(err)
	}
	for _, conditions := range [][]metav1.Condition{config.Status.Conditions, config.Status.Quotas[0].Conditions} {
		ready := apimeta.FindStatusCondition(conditions, openmcpv1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != openmcpv1alpha1.ReasonNotChecked || !strings.Contains(ready.Message, "failed calling webhook") {
			t.Errorf("condition Ready is %+v", ready)
		}
	}
	server.answers = nil
	w.Definitions.forget(config.Name) // instead of waiting
	w.settled()
	w.wantHard("it can be used", "base", "count/secrets=25")
}

// The reconciler validates a deleted and recreated configuration again, also if both events come as one.
func TestAnotherOfTheNameIsValidated(t *testing.T) {
	before, after := validatedConfig("gold"), validatedConfig("gold")
	passes := func() bool {
		return updates(differsBesidesStatus).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	if passes() {
		t.Error("one that has not changed is looked at")
	}
	after.UID = "2"
	if !passes() {
		t.Error("another one of the same generation is not looked at")
	}
	d := &Definitions{Specs: &apiServer{}, onChange: func(context.Context) {}}
	d.validate(t.Context(), before)
	if results, known := d.validities(after); known || results[0].state != unvalidated {
		t.Errorf("the result of another one is %+v already", results)
	}
}
