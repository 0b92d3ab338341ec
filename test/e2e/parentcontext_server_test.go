package e2e

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// controlPlane is a standalone Bursar running for a test.
type controlPlane struct {
	*testing.T
	client.Client
	metrics    *prometheus.Registry
	kubeconfig []byte
	stop       func()
}

// startServer starts a server with a check of other control planes once a second.
func startServer(t *testing.T, dir, listen string) *controlPlane {
	t.Helper()
	metrics := prometheus.NewRegistry()
	running, err := server.Start(standalone.Options{
		DataDir: dir, Listen: listen, Quota: config.Quota{ControlPlaneInterval: config.Duration{Duration: time.Second}}, Metrics: metrics,
	})
	must(t, err)
	s := &controlPlane{T: t, Client: running.Admin, metrics: metrics, stop: sync.OnceFunc(func() {
		if err := running.Stop(); err != nil {
			t.Errorf("a server ended: %v", err)
		}
	})}
	t.Cleanup(s.stop)
	s.kubeconfig, err = os.ReadFile(running.Kubeconfig)
	must(t, err)
	return s
}

// wantMetric waits until a metric with the given value of its label is at least want.
func (s *controlPlane) wantMetric(name, label string, want float64) {
	s.Helper()
	eventually(s, func() error {
		families, err := s.metrics.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				isAsked := family.GetName() == name && m.GetLabel()[0].GetValue() == label
				if isAsked && m.GetCounter().GetValue()+m.GetGauge().GetValue() >= want {
					return nil
				}
			}
		}
		return fmt.Errorf("metric %s is less than %g for %s", name, want, label)
	})
}

func (s *controlPlane) mustCreate(objects ...client.Object) {
	s.Helper()
	for _, object := range objects {
		if err := s.Create(s.Context(), object); err != nil {
			s.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (s *controlPlane) mustDelete(object client.Object) {
	s.Helper()
	if err := s.Delete(s.Context(), object); err != nil {
		s.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// wantCondition waits until a policy's condition has the given status and reason.
func (s *controlPlane) wantCondition(policy *quotav1alpha1.GrantCreationPolicy, conditionType string, status metav1.ConditionStatus, reason string) string {
	s.Helper()
	var message string
	eventually(s, func() error {
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(policy.Status.Conditions, conditionType)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != policy.Generation {
			return fmt.Errorf("condition %s of policy %s is %+v, want %s with reason %s", conditionType, policy.Name, c, status, reason)
		}
		message = c.Message
		return nil
	})
	return message
}

// grants returns the grants of a policy, by name.
func (s *controlPlane) grants(policy string) (map[string]quotav1alpha1.ResourceGrant, error) {
	var list quotav1alpha1.ResourceGrantList
	if err := s.List(s.Context(), &list, client.MatchingLabels{quotav1alpha1.LabelSource: policy}); err != nil {
		return nil, err
	}
	grants := map[string]quotav1alpha1.ResourceGrant{}
	for _, grant := range list.Items {
		grants[grant.Name] = grant
	}
	return grants, nil
}

// wantGrants waits until a policy has exactly the grants of the given names, each of the given amount.
func (s *controlPlane) wantGrants(policy string, amount int64, names ...string) map[string]quotav1alpha1.ResourceGrant {
	s.Helper()
	var grants map[string]quotav1alpha1.ResourceGrant
	eventually(s, func() (err error) {
		if grants, err = s.grants(policy); err != nil {
			return err
		}
		for _, name := range names {
			grant, ok := grants[name]
			if !ok || grant.Spec.Allowances[0].Buckets[0].Amount != amount {
				return fmt.Errorf("the grants of policy %s are %+v, want %s to give %d", policy, grants, name, amount)
			}
		}
		if len(grants) != len(names) {
			return fmt.Errorf("the grants of policy %s are %+v, want %v", policy, grants, names)
		}
		return nil
	})
	return grants
}

// wantEvent waits for an event on a policy.
func (s *controlPlane) wantEvent(policy, reason string) string {
	s.Helper()
	var note string
	eventually(s, func() error {
		var list eventsv1.EventList
		if err := s.List(s.Context(), &list); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Namespace != metav1.NamespaceDefault && e.Regarding.Name == policy && e.Reason == reason {
				note = e.Note
				return nil
			}
		}
		return fmt.Errorf("there is no event %s on policy %s", reason, policy)
	})
	return note
}

// controlPlaneSecret registers a control plane for the Organization of the given name.
func controlPlaneSecret(name string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: config.DefaultSystemNamespace, Name: "plane-" + name, Labels: map[string]string{
			quotav1alpha1.LabelControlPlaneGroup: platform.Group,
			quotav1alpha1.LabelControlPlaneKind:  platform.Kind,
			quotav1alpha1.LabelControlPlaneName:  name,
		}},
		Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
}
