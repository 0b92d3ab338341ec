package validate_test

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
)

// noonClock stands still at a noon.
type noonClock struct{}

func (noonClock) Now() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestGrantsUnderCaps(t *testing.T) {
	const projects = "example.com/projects"
	at := func(hours int) *metav1.Time {
		return &metav1.Time{Time: noonClock{}.Now().Add(time.Duration(hours) * time.Hour)}
	}
	grant := func(allowances ...quotav1alpha1.Allowance) *quotav1alpha1.ResourceGrant {
		g := sampleGrant()
		g.Spec.Allowances = allowances
		return g
	}
	during := func(notBefore, notAfter *metav1.Time, amount int64) quotav1alpha1.Allowance {
		a := allowance(projects, amount)
		a.Period = quotav1alpha1.Period{NotBefore: notBefore, NotAfter: notAfter}
		return a
	}
	labelled := grant(allowance(projects, 9))
	labelled.Labels = map[string]string{"a": "b"}
	const perConsumer = "spec.allowances: Invalid value: the grant gives 6 projects of example.com/projects, " +
		"and maxPerConsumer of ResourceRegistration projects is 5 projects: give at most that, or raise the cap first"
	cases := map[string]struct {
		reason             string
		perConsumer, total int64
		old, new           *quotav1alpha1.ResourceGrant
		user               string
		message            string // empty: allowed
	}{
		"Fits":      {reason: "a cap may be reached", perConsumer: 5, total: 5, new: grant(allowance(projects, 2, 3))},
		"Exceeds":   {reason: "it can never count", perConsumer: 5, new: grant(allowance(projects, 2, 3), allowance(projects, 1)), message: perConsumer},
		"Total":     {reason: "nor can this", total: 5, new: grant(allowance(projects, 6)), message: "maxTotal of ResourceRegistration projects is 5 projects"},
		"OtherType": {reason: "caps are per type", perConsumer: 5, new: grant(allowance(projects, 5), allowance("example.com/seats", 6))},
		"NoCaps":    {reason: "by default there is no cap", new: grant(allowance(projects, 6))},
		"Raised": {
			reason:      "a change is like a create",
			perConsumer: 5, old: grant(allowance(projects, 5)), new: grant(allowance(projects, 6)), message: perConsumer,
		},
		"AsMuch": {
			reason:      "what counts already may go on",
			perConsumer: 5, old: grant(allowance(projects, 9)), new: grant(allowance(projects, 4, 5)),
		},
		"Labelled":  {reason: "so may a grant as it is", perConsumer: 5, old: grant(allowance(projects, 9)), new: labelled},
		"InTurn":    {reason: "one after the other they fit", perConsumer: 5, new: grant(during(nil, at(1), 4), during(at(1), nil, 4))},
		"Later":     {reason: "the rest fits later", perConsumer: 5, new: grant(during(nil, nil, 4), during(nil, at(1), 4))},
		"NeverThen": {reason: "it begins and exceeds", perConsumer: 5, new: grant(during(at(1), at(2), 6)), message: perConsumer},
		"Over":      {reason: "it is over", perConsumer: 5, new: grant(during(nil, at(-1), 6))},
		"Policy":    {reason: "a policy's grant waits for another cap", perConsumer: 5, new: grant(allowance(projects, 6)), user: bursar},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := quiet()
			f.registration = &catalog.Registration{
				Name: "projects", ResourceType: projects, DisplayUnit: "project", Factor: 1, MaxPerConsumer: c.perConsumer, MaxTotal: c.total,
			}
			webhooks := f.webhooks()
			webhooks.Clock = noonClock{}
			var old any
			operation, user := admissionv1.Create, "alice"
			if c.old != nil {
				operation, old = admissionv1.Update, c.old
			}
			if c.user != "" {
				user = c.user
			}
			got := send(t, webhooks.Validation(), review(t, operation, "ResourceGrant", "resourcegrants", user, old, c.new))
			if got.Allowed != (c.message == "") || !got.Allowed && (got.Result.Code != 422 || !strings.Contains(got.Result.Message, c.message)) {
				t.Errorf("%s: got %+v", c.reason, got)
			}
		})
	}
}
