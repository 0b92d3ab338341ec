package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
)

const (
	// dataBytesMax is the API server's maximum size of a ConfigMap.
	dataBytesMax = 1 << 20
	// requestBytesMax is the API server's maximum size of a request.
	requestBytesMax = 3 << 20
	// messageBytesMax is the maximum size of a message for a person.
	messageBytesMax = 8 << 10
)

func TestLargeObjectsAreChargedAsOthers(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	object := w.configMap("a")
	object.Data = map[string]string{"text": strings.Repeat("x", dataBytesMax-len("text"))}
	w.mustCreate(object)
	w.wantBucket(1, 1, 0, 1)
	large := w.configMap("b")
	large.Data = object.Data
	if message := w.wantExceeded(large); len(message) > messageBytesMax {
		t.Errorf("the message has %d bytes, want at most %d", len(message), messageBytesMax)
	}
}

// TestTooLargeObjectsAreNotCharged creates objects too large for the API server itself.
func TestTooLargeObjectsAreNotCharged(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	w.mustCreate(w.configMap("a"))
	w.wantBucket(2, 1, 1, 1)
	before := w.ledgerVersion()
	for size, code := range map[int]int32{
		dataBytesMax + 1:    http.StatusUnprocessableEntity,
		requestBytesMax:     http.StatusRequestEntityTooLarge,
		2 * requestBytesMax: http.StatusRequestEntityTooLarge,
	} {
		object := w.configMap("b")
		object.Data = map[string]string{"text": strings.Repeat("x", size)}
		wantCode(t, admin.Create(w.ctx, object), code)
	}
	if after := w.ledgerVersion(); after != before {
		t.Errorf("the ledger went from version %s to %s, although nothing was created", before, after)
	}
	w.wantBucket(2, 1, 1, 1)
}

// TestHugeDeclarationsAreRefused sends Bursar's own kinds with almost the maximum size of a request.
func TestHugeDeclarationsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const size = requestBytesMax - 16<<10
	tests := map[string]struct {
		reason string
		object client.Object
		want   string
	}{
		"condition": {"an expression has a bound", w.changedPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Trigger.Conditions[0].Expression = "trigger.metadata.name == '" + strings.Repeat("x", size) + "'"
		}), "spec.trigger.conditions[0].expression"},
		"template": {"and so has a template", w.changedPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			p.Spec.Target.ResourceClaimTemplate.Metadata.Name = "{{.trigger.metadata.name}}" + strings.Repeat("x", size)
		}), "spec.target.resourceClaimTemplate.metadata.name"},
		"many annotations": {"annotations add up", w.changedPolicy(func(p *quotav1alpha1.ClaimCreationPolicy) {
			annotations := map[string]string{}
			for n := range 64 {
				annotations[fmt.Sprint("key-", n)] = strings.Repeat("x", size/64-16)
			}
			p.Spec.Target.ResourceClaimTemplate.Metadata.Annotations = annotations
		}), "spec.target.resourceClaimTemplate.metadata.annotations"},
		"claim": {"a name is a name", w.changedClaim(func(c *quotav1alpha1.ResourceClaim) {
			c.Spec.ResourceRef.Name = strings.Repeat("x", size)
		}), "spec.resourceRef.name"},
		"claim's dimensions": {"16 are the most", w.changedClaim(func(c *quotav1alpha1.ResourceClaim) {
			c.Spec.Requests[0].Dimensions = map[string]string{}
			for n := range 64 {
				c.Spec.Requests[0].Dimensions[fmt.Sprint("dimension-", n)] = strings.Repeat("x", size/64-32)
			}
		}), "spec.requests[0].dimensions"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			var code int32
			await.NoError(t, 2*time.Minute, func() error {
				err = admin.Create(w.ctx, tt.object)
				if code = codeOf(err); code == http.StatusInternalServerError {
					return err // this machine is too busy to read the object in time
				}
				return nil
			})
			if err == nil {
				w.cleanUp(tt.object)
			}
			if code < 400 || code >= 500 {
				t.Fatalf("%s: got %.300v, want a refusal with a code of 4xx", tt.reason, err)
			}
			message := err.Error()
			if !strings.Contains(message, tt.want) || len(message) > messageBytesMax {
				t.Errorf("%s: the message of %d bytes is %.300q, want it to name %s in at most %d bytes", tt.reason, len(message), message, tt.want, messageBytesMax)
			}
		})
	}
}

func (w *world) changedPolicy(change func(*quotav1alpha1.ClaimCreationPolicy)) client.Object {
	policy := w.newPolicy(w.name + "-huge")
	change(policy)
	return policy
}

func (w *world) changedClaim(change func(*quotav1alpha1.ResourceClaim)) client.Object {
	claim := w.claim("huge", 1)
	change(claim)
	return claim
}

func wantCode(t *testing.T, err error, code int32) {
	t.Helper()
	if codeOf(err) != code {
		t.Errorf("got %.300v, want a refusal with code %d", err, code)
	}
}

// codeOf is the HTTP status of an error of the API server, or 0.
func codeOf(err error) int32 {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return 0
	}
	return status.Status().Code
}

// TestOtherVersionsAreEnforced creates objects in another version than the policy's.
func TestOtherVersionsAreEnforced(t *testing.T) {
	t.Parallel()
	const group, kind = "versions.example.com", "Widget"
	w := &world{T: t, ctx: t.Context(), name: "other-versions"}
	w.mustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}})
	definition := platform.Definition(group, kind, "widgets")
	second := *definition.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage = "v2", false
	definition.Spec.Versions = append(definition.Spec.Versions, second)
	w.mustCreate(definition)
	registration := w.registration(w.resourceType())
	registration.Spec.ClaimingResources = []quotav1alpha1.ClaimingResource{{APIGroup: group, Kind: kind}}
	w.mustCreate(registration)
	w.waitCondition(registration, quotav1alpha1.ConditionActive, metav1.ConditionTrue)
	w.grant("base", 1)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: group + "/v1", Kind: kind}
		p.Spec.Trigger.Conditions = []quotav1alpha1.ConditionExpression{{Expression: `trigger.apiVersion == "` + group + `/v1"`}}
	})
	widget := func(version, name string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(group + "/" + version)
		object.SetKind(kind)
		object.SetName(name)
		return object
	}
	first := widget("v2", "a")
	w.mustCreate(first)
	w.wantBucket(1, 1, 0, 1)
	w.wantExceeded(widget("v2", "b"))
	w.wantExceeded(widget("v1", "b"))
	w.mustDelete(first)
	w.wantBucket(1, 0, 1, 0)
	w.mustCreate(widget("v1", "b"))
	w.wantExceeded(widget("v2", "c"))
}

// TestOldestWaitingClaimIsFirst raises the limit by enough for one waiting claim at a time. The claims' names are in
// the opposite order.
func TestOldestWaitingClaimIsFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grant := w.grant("base", 0)
	older, younger := w.claim("z", 1), w.claim("a", 1)
	w.mustCreate(older)
	// The API server writes times in whole seconds.
	eventually(w, func() error {
		if !time.Now().Truncate(time.Second).After(older.CreationTimestamp.Time) {
			return errors.New("the second is not over")
		}
		return nil
	})
	w.mustCreate(younger)
	if !older.CreationTimestamp.Before(&younger.CreationTimestamp) {
		t.Fatalf("the claims were created at %s and %s, want one after the other", older.CreationTimestamp, younger.CreationTimestamp)
	}
	w.waitReason(older, quotav1alpha1.ReasonQuotaExceeded)
	w.waitReason(younger, quotav1alpha1.ReasonQuotaExceeded)

	w.update(grant, func() { grant.Spec.Allowances[0].Buckets[0].Amount = 1 })
	w.wantBucket(1, 1, 0, 1)
	w.waitCondition(older, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.waitReason(younger, quotav1alpha1.ReasonQuotaExceeded)
	w.mustDelete(older)
	w.waitCondition(younger, quotav1alpha1.ConditionGranted, metav1.ConditionTrue)
	w.wantBucket(1, 1, 0, 1)
}

func TestDryRunUnderTwoPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := w.name + "/others"
	w.mustCreate(w.registration(second))
	w.grantTypes("base", map[string]int64{w.resourceType(): 3, second: 1})
	w.policy(w.name+"-1", nil)
	w.policy(w.name+"-2", func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests[0].ResourceType = second
	})
	if err := admin.Create(w.ctx, w.configMap("a"), client.DryRunAll); err != nil {
		t.Fatalf("dry run that fits both: %v", err)
	}
	w.mustCreate(w.configMap("a"))
	w.wantBucket(3, 1, 2, 1)
	before := w.ledgerVersion()
	message := w.wantExceeded(w.configMap("b"), client.DryRunAll) // the first policy has room
	if want := "requested: 1 map, used: 1, limited: 1"; !strings.Contains(message, want) || strings.Contains(message, "limited: 3") {
		t.Errorf("the message is %q, want it to say %q and nothing of the policy that has room", message, want)
	}
	if after := w.ledgerVersion(); after != before {
		t.Errorf("the ledger went from version %s to %s in a dry run", before, after)
	}
	eventually(w, func() error {
		if claims := w.claims(); len(claims) != 2 {
			return fmt.Errorf("%d claims exist, want the two of the one object", len(claims))
		}
		return nil
	})
	w.wantBucket(3, 1, 2, 1)
}

// TestDenialNamesNobodyElse lets two consumers use up one resource type. A denied consumer learns of its own quota, but
// neither the names nor the amounts of others.
func TestDenialNamesNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const neighbour, label = "confidential-neighbour", "platform.example.com/owner"
	w.grant("base", 1)
	w.mustCreate(&quotav1alpha1.ResourceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "neighbours", Namespace: w.name},
		Spec: quotav1alpha1.ResourceGrantSpec{
			ConsumerRef: platform.Consumer(neighbour),
			Allowances:  []quotav1alpha1.Allowance{{ResourceType: w.resourceType(), Buckets: []quotav1alpha1.Bucket{{Amount: 4711}}}},
		},
	})
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Target.ResourceClaimTemplate.Spec.ConsumerRef.Name = `{{index .trigger.metadata.labels "` + label + `"}}`
	})
	owned := func(name, owner string) *corev1.ConfigMap {
		object := w.configMap(name)
		object.Labels = map[string]string{label: owner}
		return object
	}
	eventually(w, func() error { return admin.Create(w.ctx, owned("neighbours", neighbour)) })
	w.cleanUp(owned("neighbours", neighbour))
	w.mustCreate(owned("own", w.name))
	message := w.wantExceeded(owned("one-too-many", w.name))
	if !strings.Contains(message, "Organization "+w.name+", requested: 1 map, used: 1, limited: 1") {
		t.Errorf("the message %q does not explain itself", message)
	}
	for _, secret := range []string{neighbour, "4711"} {
		if strings.Contains(message, secret) {
			t.Errorf("the message %q tells %s of somebody else", message, secret)
		}
	}
}
