package validate_test

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestMutation(t *testing.T) {
	withFinalizers := func(finalizers ...string) *claim {
		c := sampleClaim()
		c.Finalizers = finalizers
		c.Annotations = map[string]string{quotav1alpha1.AnnotationChangedBy: "alice"}
		c.Labels = map[string]string{quotav1alpha1.LabelConsumerKind: c.Spec.ConsumerRef.Kind, quotav1alpha1.LabelConsumerName: c.Spec.ConsumerRef.Name}
		return c
	}
	labelled := func(labels map[string]string) *claim {
		c := withFinalizers(quotav1alpha1.FinalizerQuotaRelease)
		c.Labels = labels
		return c
	}
	deleted := withFinalizers()
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	cases := map[string]struct {
		reason    string
		operation admissionv1.Operation
		kind      string
		old       any
		object    any
		patch     string
		refused   string
	}{
		"None": {
			reason: "every claim gets the finalizer",
			object: withFinalizers(),
			patch:  `[{"op":"add","path":"/metadata/finalizers","value":["quota.miloapis.com/quota-release"]}]`,
		},
		"Others": {
			reason: "in addition to those of others",
			object: withFinalizers("example.com/other"),
			patch:  `[{"op":"add","path":"/metadata/finalizers/-","value":"quota.miloapis.com/quota-release"}]`,
		},
		"Present": {
			reason: "once",
			object: withFinalizers("example.com/other", quotav1alpha1.FinalizerQuotaRelease),
		},
		"InvalidSpec": {
			reason: "what is wrong with the claim is for validation to say",
			object: map[string]any{"metadata": map[string]any{"name": "p1", "annotations": map[string]string{quotav1alpha1.AnnotationChangedBy: "alice"}}, "spec": 7},
			patch:  `[{"op":"add","path":"/metadata/finalizers","value":["quota.miloapis.com/quota-release"]}]`,
		},
		"Unreadable": {
			reason:  "an object that cannot be read is the sender's fault",
			object:  []string{"claim"},
			refused: "the object cannot be read: json: cannot unmarshal array into Go value of type validate.mutated",
		},
		"Replaced": {
			reason:    "the manifest of a claim does not have the finalizer",
			operation: admissionv1.Update,
			old:       withFinalizers(quotav1alpha1.FinalizerQuotaRelease),
			object:    withFinalizers(),
			patch:     `[{"op":"add","path":"/metadata/finalizers","value":["quota.miloapis.com/quota-release"]}]`,
		},
		"ReplacedWithout": {
			reason:    "whoever decides on the claim puts it there first",
			operation: admissionv1.Update,
			old:       withFinalizers("example.com/other"),
			object:    withFinalizers(),
		},
		"LetGo": {
			reason:    "a claim that is being deleted can get no finalizer, and validation says why it must not lose one",
			operation: admissionv1.Update,
			old:       withFinalizers(quotav1alpha1.FinalizerQuotaRelease),
			object:    deleted,
		},
		"Deletion": {
			reason:    "nothing of a claim that goes is to be changed",
			operation: admissionv1.Delete,
			object:    withFinalizers(),
			refused:   "this webhook does not know quota.miloapis.com/v1alpha1, Kind=ResourceClaim; correct the webhook configuration",
		},
		"NoLabels": {
			reason: "claims are found by their consumer",
			object: labelled(nil),
			patch:  `[{"op":"add","path":"/metadata/labels","value":{"quota.miloapis.com/consumer-kind":"Organization","quota.miloapis.com/consumer-name":"acme"}}]`,
		},
		"OtherLabels": {
			reason: "labels that say something else are put right",
			object: labelled(map[string]string{"team": "a", quotav1alpha1.LabelConsumerKind: "Organization", quotav1alpha1.LabelConsumerName: "globex"}),
			patch:  `[{"op":"add","path":"/metadata/labels/quota.miloapis.com~1consumer-name","value":"acme"}]`,
		},
		"OtherKind": {
			reason:  "only claims hold charges",
			kind:    "ResourceGrant",
			object:  sampleGrant(),
			refused: "this webhook does not know quota.miloapis.com/v1alpha1, Kind=ResourceGrant; correct the webhook configuration",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.operation == "" {
				c.operation = admissionv1.Create
			}
			if c.kind == "" {
				c.kind = "ResourceClaim"
			}
			got := send(t, quiet().Mutation(), review(t, c.operation, c.kind, "resourceclaims", "alice", c.old, c.object))
			if c.refused != "" {
				if got.Allowed || got.Result.Code != 400 || got.Result.Message != c.refused {
					t.Errorf("%s: got %+v", c.reason, got.Result)
				}
				return
			}
			if !got.Allowed || string(got.Patch) != c.patch {
				t.Errorf("%s: allowed = %v, patch %s, want %s", c.reason, got.Allowed, got.Patch, c.patch)
			}
			if (got.PatchType != nil) != (c.patch != "") {
				t.Errorf("%s: a patch and its type go together", c.reason)
			}
		})
	}
}
