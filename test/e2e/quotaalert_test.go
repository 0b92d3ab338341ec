package e2e

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
)

// newAlert is the threshold of the world's consumer for its resource type, in a namespace.
func (w *world) newAlert(namespace string, percent int32) *quotav1alpha1.QuotaAlert {
	return &quotav1alpha1.QuotaAlert{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.name},
		Spec: quotav1alpha1.QuotaAlertSpec{
			ConsumerRef: w.consumer(), Thresholds: []quotav1alpha1.QuotaAlertThreshold{{ResourceType: w.resourceType(), Percent: percent}},
		},
	}
}

// TestQuotaAlert has a tenant set the threshold of their consumer, within the bounds of the platform. The metric and
// the events follow.
func TestQuotaAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const home = config.DefaultSystemNamespace
	tenantName, viewerName := w.name+"-tenant", w.name+"-viewer"
	w.bind(tenantName, "bursar-tenant-admin", home)
	w.bind(viewerName, "bursar-tenant-viewer", home)
	tenant, viewer := w.clientOf(tenantName), w.clientOf(viewerName)
	may := authorizationv1.ResourceAttributes{Namespace: home, Verb: "create", Group: quotav1alpha1.GroupName, Version: "*", Resource: "quotaalerts"}
	w.waitMay(tenantName, may)
	may.Verb = "list"
	w.waitMay(viewerName, may)
	grant := w.grant("base", 10)
	w.update(grant, func() { grant.Annotations = map[string]string{quotav1alpha1.AnnotationAlertThreshold: "70"} })
	w.mustCreate(w.claim("half", 5))
	w.wantThreshold(0.7)

	// The bounds of the server are 10 to 100.
	for percent, want := range map[int32]string{9: "must be from 10 to 100, the bounds of the platform", 101: "should be less than or equal to 100"} {
		if err := tenant.Create(w.ctx, w.newAlert(home, percent)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v for a threshold of %d%%, want %q", err, percent, want)
		}
	}
	if err := admin.Create(w.ctx, w.newAlert(w.name, 50)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "belongs in namespace "+home) {
		t.Errorf("got %v for an alert outside of the consumer's namespace", err)
	}
	if err := viewer.Create(w.ctx, w.newAlert(home, 50)); !apierrors.IsForbidden(err) {
		t.Errorf("got %v for the alert of somebody who may only read", err)
	}
	alert := w.newAlert(home, 50)
	must(t, tenant.Create(w.ctx, alert))
	w.wantThreshold(0.5)
	effective, err := w.effective()
	must(t, err)
	wantEvent := func(reason string, parts ...string) {
		t.Helper()
		w.wantEventWhere(reason, parts, func(e *eventsv1.Event) bool { return e.Regarding.UID == effective.UID })
	}
	wantEvent("QuotaNearLimit", "5 maps of 10 maps", "50% or more of its limit")

	alert.Spec.Thresholds[0].Percent = 5
	if err := tenant.Update(w.ctx, alert); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be from 10 to 100") {
		t.Errorf("got %v for a change to 5%%", err)
	}
	alert.Spec.Thresholds[0].Percent, alert.Spec.ConsumerRef.Name = 60, "another"
	if err := tenant.Update(w.ctx, alert); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "consumerRef is immutable") {
		t.Errorf("got %v for another consumer", err)
	}
	alert.Spec.ConsumerRef.Name = w.consumer().Name
	must(t, tenant.Update(w.ctx, alert))
	w.wantThreshold(0.6)
	wantEvent("QuotaBelowThreshold", "5 maps of 10 maps", "less than 60% of its limit")

	must(t, tenant.Delete(w.ctx, alert))
	w.wantThreshold(0.7)
}
