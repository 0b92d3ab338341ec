package validate_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestMutation(t *testing.T) {
	withFinalizers := func(finalizers ...string) *claim {
		c := sampleClaim()
		c.Finalizers = finalizers
		return c
	}
	cases := map[string]struct {
		reason    string
		operation admissionv1.Operation
		kind      string
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
			object: map[string]any{"metadata": map[string]any{"name": "p1"}, "spec": 7},
			patch:  `[{"op":"add","path":"/metadata/finalizers","value":["quota.miloapis.com/quota-release"]}]`,
		},
		"Unreadable": {
			reason:  "an object that cannot be read is the sender's fault",
			object:  []string{"claim"},
			refused: "the object cannot be read: json: cannot unmarshal array into Go value of type v1.PartialObjectMetadata",
		},
		"Update": {
			reason:    "a claim that lost its finalizer is being let go",
			operation: admissionv1.Update,
			object:    withFinalizers(),
			refused:   "this webhook does not know quota.miloapis.com/v1alpha1, Kind=ResourceClaim; correct the webhook configuration",
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
			got := send(t, quiet().Mutation(), review(t, c.operation, c.kind, "resourceclaims", "alice", nil, c.object))
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
