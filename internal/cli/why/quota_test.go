package why

import (
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// A denial names its consumer and its resource type, whatever the display name.
func TestDenialWithDisplayName(t *testing.T) {
	const machines = "compute.example.com/machines"
	web := quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}
	for display, reason := range map[string]string{
		"":                                   "the denial names the kind",
		"Virtual machines":                   "the denial names it, and the type",
		"Machines (large), shared":           "punctuation is no end of the name",
		"quota of Team red, requested: 1":    "the name of another consumer",
		"a) quota of Team red":               "the name of another consumer, after the resource type",
		"Project evil, Disk":                 "a list of types has them",
		"\nquota of\u00a0Team\tred\n, used:": "the name of another consumer in several lines",
	} {
		r := &quotav1alpha1.ResourceRegistration{Spec: quotav1alpha1.ResourceRegistrationSpec{
			ResourceType: machines, Type: quotav1alpha1.RegistrationTypeEntity, DisplayUnit: "machine", UnitConversionFactor: 1,
			ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "Machine"}},
		}}
		r.Name, r.Annotations = "machines", map[string]string{quotav1alpha1.AnnotationDisplayName: display}
		apimeta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: quotav1alpha1.ConditionActive, Status: metav1.ConditionTrue})
		reader := &Reader{registrations: catalog.New()}
		reader.registrations.SetRegistration(r)
		short := []ledger.Shortage{{ResourceType: machines, Requested: 1, Used: 2, Limit: 2, Matching: 2}}
		for _, text := range []string{
			message.Exceeded(reader.registrations, web, short), message.Of(web, short).Hidden(reader.registrations),
			"exceeded quota: Machine quota of Project web, requested: 1 machine", // from before the display name
		} {
			payment, ok := parse(text)
			if !ok || payment.Consumer != web {
				t.Errorf("%q (%s): the payer in %q is %v", display, reason, text, payment.Consumer)
			}
			if !reader.isNamed(payment.By, machines) || reader.isNamed(payment.By, "compute.example.com/disks") {
				t.Errorf("%q (%s): the resource type in %q is not found", display, reason, text)
			}
		}
	}
}

// A consumer above its limit also lacks the excess. A policy that does not enforce lets the object pass all the same.
func TestShortage(t *testing.T) {
	for _, tt := range []struct {
		used, available int64
		want            string
	}{
		{4, 6, "yes"},
		{7, 3, "no, 5 short"},
		{13, 0, "no, 11 short"},
	} {
		pay := Payment{Consumer: quotav1alpha1.ConsumerRef{Kind: "Project", Name: "web"}, Mode: "Audit"}
		shown := &quotav1alpha1.EffectiveResourceGrant{Status: quotav1alpha1.EffectiveResourceGrantStatus{TotalLimit: 10, TotalAllocated: tt.used, Available: tt.available}}
		request := quotav1alpha1.ResourceRequest{ResourceType: "cpu", Amount: 8}
		if tt.want == "yes" {
			request.Amount = 6
		}
		pay.Types = []Type{(&Reader{registrations: catalog.New()}).typeOf(&pay, request, shown)}
		if got := pay.Types[0].Fits; got != tt.want {
			t.Errorf("%d used: got %q, want %q", tt.used, got, tt.want)
		}
		e := Explanation{Answer: "The API server would create it now.", Payments: []Payment{pay}}
		e.addMode()
		if got := strings.HasSuffix(e.Answer, "the mode Audit: Enforce would deny it."); got != (tt.want != "yes") {
			t.Errorf("%d used: the answer is %q", tt.used, e.Answer)
		}
	}
}
