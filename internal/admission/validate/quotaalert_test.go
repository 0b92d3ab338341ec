package validate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/config"
)

func TestQuotaAlert(t *testing.T) {
	const create, update, remove = admissionv1.Create, admissionv1.Update, admissionv1.Delete
	alert := func(percents ...int32) *quotav1alpha1.QuotaAlert {
		a := &quotav1alpha1.QuotaAlert{TypeMeta: typeMeta("QuotaAlert"), ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "p1"}}
		a.Spec.ConsumerRef = sampleConsumer
		for i, percent := range percents {
			a.Spec.Thresholds = append(a.Spec.Thresholds, quotav1alpha1.QuotaAlertThreshold{ResourceType: "type" + string(rune('A'+i)), Percent: percent})
		}
		return a
	}
	elsewhere, moved, nobody, labelled := alert(50), alert(60), alert(50), alert(5)
	elsewhere.Namespace, moved.Namespace = "acme", "acme"
	nobody.Spec.ConsumerRef.Name, labelled.Labels = "", map[string]string{"a": "b"}
	const prefix = `QuotaAlert.quota.miloapis.com "p1" is invalid: `
	for name, tt := range map[string]struct {
		reason    string
		operation admissionv1.Operation
		old, new  any
		message   string // "": allowed
		warnings  []string
	}{
		"Within": {reason: "both bounds are allowed", operation: create, new: alert(20, 90), warnings: []string{
			`resource type "typeB" is not registered: its threshold has no effect until it is`,
		}},
		"Below": {
			reason: "the platform has a lower bound", operation: create, new: alert(50, 19),
			message: prefix + "spec.thresholds[1].percent: Invalid value: 19: must be from 20 to 90, the bounds of the platform",
		},
		"Above": {
			reason: "the platform has an upper bound", operation: create, new: alert(91),
			message: prefix + "spec.thresholds[0].percent: Invalid value: 91: must be from 20 to 90, the bounds of the platform",
		},
		"Elsewhere": {
			reason: "a tenant sets thresholds for itself only", operation: create, new: elsewhere,
			message: prefix + `metadata.namespace: Invalid value: "acme": an alert for Organization acme belongs in namespace bursar-system, where its quota is shown`,
		},
		"Nobody": {reason: "a consumer has a name", operation: create, new: nobody, message: prefix + "spec.consumerRef.name: Required value: name the object"},
		"Changed": {
			reason: "an update is held to the bounds too", operation: update, old: alert(50), new: alert(10),
			message: prefix + "spec.thresholds[0].percent: Invalid value: 10: must be from 20 to 90, the bounds of the platform",
		},
		"Moved": {
			reason: "an update is held to the namespace too", operation: update, old: elsewhere, new: moved,
			message: prefix + `metadata.namespace: Invalid value: "acme": an alert for Organization acme belongs in namespace bursar-system, where its quota is shown`,
		},
		"Former": {reason: "one from before the bounds may stay beside a new one", operation: update, old: alert(5), new: alert(5, 50), warnings: []string{
			`resource type "typeB" is not registered: its threshold has no effect until it is`,
		}},
		"Labelled": {reason: "one from before the bounds can be labelled", operation: update, old: alert(5), new: labelled},
		"Deleted":  {reason: "a threshold can be taken back", operation: remove, old: alert(5)},
	} {
		t.Run(name, func(t *testing.T) {
			f := quiet()
			f.registration = &catalog.Registration{ResourceType: "typeA"}
			w := f.webhooks()
			w.ConsumerThresholds = config.ConsumerThresholds{MinPercent: 20, MaxPercent: 90}
			got := send(t, w.Validation(), review(t, tt.operation, "QuotaAlert", "quotaalerts", "alice", tt.old, tt.new))
			switch {
			case got.Allowed != (tt.message == ""):
				t.Errorf("%s: got %+v", tt.reason, got.Result)
			case !got.Allowed && (got.Result.Code != 422 || !strings.HasPrefix(got.Result.Message, tt.message)):
				t.Errorf("%s: got %d %s\nwant %s", tt.reason, got.Result.Code, got.Result.Message, tt.message)
			case !slices.Equal(got.Warnings, tt.warnings):
				t.Errorf("%s (-want +got):\n%s", tt.reason, cmp.Diff(tt.warnings, got.Warnings))
			}
		})
	}
}
