package e2e

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An update admitted by Bursar and refused by somebody else can succeed on the next attempt. After another change of
// the object, nothing of it is left.
func TestUpdateThatIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 1))
	f.wantBucket(5, 1, 4, 1)
	f.refused(func() error { return f.resize("a", 4) })
	eventually(f, func() error { return f.resize("a", 3) })
	f.wantBucket(5, 3, 2, 1)
	f.refused(func() error { return f.resize("a", 5) })
	eventually(f, func() error { return f.set("a", "x", "spec", "note") })
	f.wantBucket(5, 3, 2, 1)
	eventually(f, func() error { return admin.Create(f.ctx, f.fleet("b", 2)) })
	f.wantBucket(5, 5, 0, 2)
}

// The same holds for an update from no charge to some.
func TestUpdateFromNothingThatIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	f := newFollowedWorld(t, 5, nil)
	f.mustCreate(f.fleet("a", 0))
	f.refused(func() error { return f.resize("a", 4) })
	eventually(f, func() error { return f.set("a", "x", "spec", "note") })
	eventually(f, func() error { return admin.Create(f.ctx, f.fleet("b", 5)) })
	f.wantBucket(5, 5, 0, 1)
	wantTooMuch(t, f.resize("a", 1))
}

// refused has a change admitted by Bursar and refused by somebody else, and then removes the refuser. The refuser is in
// place once it refuses a change that leaves the charge the same.
func (f *followed) refused(change func() error) {
	f.Helper()
	refuser := f.refuser()
	isRefused := func(change func() error) error {
		if err := change(); err == nil || !strings.Contains(err.Error(), "refuser.example.com") {
			return fmt.Errorf("got %v, want somebody else to refuse", err)
		}
		return nil
	}
	eventually(f, func() error {
		return isRefused(func() error { return f.set("a", "any", "spec", "note") })
	})
	must(f.T, isRefused(change))
	f.mustDelete(refuser)
}

// refuser makes every change of the world's fleets fail after all other webhooks: nobody can reach it.
func (f *followed) refuser() *admissionregistrationv1.ValidatingWebhookConfiguration {
	f.Helper()
	nowhere, none := "https://127.0.0.1:1/", admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "refuser.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &nowhere},
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": f.name}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{fleet.Group}, APIVersions: []string{"*"}, Resources: []string{"fleets"}},
			}},
		}},
	}
	f.mustCreate(configuration)
	return configuration
}
