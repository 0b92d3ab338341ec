package validate_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	"github.com/bursar/bursar/internal/admission/validate"
)

func quotaIncrease(amounts map[corev1.ResourceName]string) *openmcpv1alpha1.QuotaIncrease {
	object := &openmcpv1alpha1.QuotaIncrease{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: "acme"}}
	object.Spec.Hard = corev1.ResourceList{}
	for name, amount := range amounts {
		object.Spec.Hard[name] = resource.MustParse(amount)
	}
	return object
}

func definition(name string, change func(*openmcpv1alpha1.QuotaDefinition)) openmcpv1alpha1.QuotaDefinition {
	d := openmcpv1alpha1.QuotaDefinition{Name: name, Mode: openmcpv1alpha1.ModeMaximum,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name}}}
	if change != nil {
		change(&d)
	}
	return d
}

func quotaServiceConfig(definitions ...openmcpv1alpha1.QuotaDefinition) *openmcpv1alpha1.QuotaServiceConfig {
	return &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "platform"}, Spec: openmcpv1alpha1.QuotaServiceConfigSpec{Quotas: definitions}}
}

func TestQuotaIncrease(t *testing.T) {
	type amounts = map[corev1.ResourceName]string
	tests := map[string]struct {
		reason   string
		old, new *openmcpv1alpha1.QuotaIncrease
		want     string
	}{
		"Good":     {"amounts may be 0", nil, quotaIncrease(amounts{"count/secrets": "5", "pods": "0"}), ""},
		"Negative": {"an increase cannot lower", nil, quotaIncrease(amounts{"count/secrets": "-5"}), `spec.hard[count/secrets]: Invalid value: "-5": must not be negative: an increase cannot lower a quota`},
		"Kept":     {"what was there before may stay", quotaIncrease(amounts{"pods": "-5"}), quotaIncrease(amounts{"pods": "-5", "count/secrets": "1"}), ""},
		"Changed":  {"what is changed is judged", quotaIncrease(amounts{"pods": "5"}), quotaIncrease(amounts{"pods": "-5"}), `spec.hard[pods]: Invalid value: "-5": must not be negative`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantErrors(t, tt.reason, validate.QuotaIncrease(tt.old, tt.new), tt.want)
		})
	}
}

// wantErrors checks for a single error with this beginning, or for none.
func wantErrors(t *testing.T, reason string, errs field.ErrorList, want string) {
	t.Helper()
	got := ""
	if len(errs) > 0 {
		got = errs.ToAggregate().Error()
	}
	if !strings.HasPrefix(got, want) || want == "" && got != "" {
		t.Errorf("%s: got\n%s\nwant\n%s", reason, got, want)
	}
}

func TestQuotaServiceConfig(t *testing.T) {
	badSelector := func(d *openmcpv1alpha1.QuotaDefinition) {
		d.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "In"}}}
	}
	long := quotaServiceConfig(definition("gold", nil), definition("silver", nil))
	long.Name = strings.Repeat("a", 64)
	tests := map[string]struct {
		reason   string
		old, new *openmcpv1alpha1.QuotaServiceConfig
		want     string
	}{
		"Good":      {"several definitions", nil, quotaServiceConfig(definition("gold", nil), definition("silver", nil)), ""},
		"Empty":     {"no definitions", nil, quotaServiceConfig(), ""},
		"Duplicate": {"a name stands for one quota", nil, quotaServiceConfig(definition("gold", nil), definition("gold", nil)), `spec.quotas[1].name: Duplicate value: "gold"`},
		"DuplicateAdded": {"also where the former one stays", quotaServiceConfig(definition("gold", nil)),
			quotaServiceConfig(definition("gold", nil), definition("gold", nil)), `spec.quotas[1].name: Duplicate value: "gold"`},
		"Selector":       {"a selector that selects nothing for good", nil, quotaServiceConfig(definition("gold", badSelector)), `spec.quotas[0].selector: Invalid value: `},
		"Name":           {"the ResourceQuota could not have the name", nil, quotaServiceConfig(definition("a..b", nil)), `spec.quotas[0].name: Invalid value: "a..b": a lowercase RFC 1123 subdomain`},
		"LongName":       {"the label could not have it", nil, quotaServiceConfig(definition(strings.Repeat("a", 64), func(d *openmcpv1alpha1.QuotaDefinition) { d.Selector = nil })), `spec.quotas[0].name: Too long: may not be more than 63 bytes`},
		"LongConfigName": {"nor that of the configuration, which is told once", nil, long, `metadata.name: Too long: may not be more than 63 bytes`},
		"Mode":           {"the schema knows the modes, others may ask", nil, quotaServiceConfig(definition("gold", func(d *openmcpv1alpha1.QuotaDefinition) { d.Mode = "odd" })), `spec.quotas[0].mode: Unsupported value: "odd"`},
		"Label":          {"the ResourceQuota could not have the label", nil, quotaServiceConfig(definition("gold", func(d *openmcpv1alpha1.QuotaDefinition) { d.Template.Labels = map[string]string{"a b": "c"} })), `spec.quotas[0].template.labels: Invalid value: "a b"`},
		"Kept": {"a definition from before a rule may stay while another changes", quotaServiceConfig(definition("gold", badSelector)),
			quotaServiceConfig(definition("silver", nil), definition("gold", badSelector)), ""},
		"Changed": {"but not be changed into another that is wrong", quotaServiceConfig(definition("gold", badSelector)),
			quotaServiceConfig(definition("gold", func(d *openmcpv1alpha1.QuotaDefinition) { badSelector(d); d.PreviewDeletion = true })), `spec.quotas[0].selector: Invalid value: `},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantErrors(t, tt.reason, validate.QuotaServiceConfig(tt.old, tt.new), tt.want)
		})
	}
}

// The API server validates changed specs, so Bursar stores none that it may reject.
func TestQuotaSpecsAreValidatedByTheAPIServer(t *testing.T) {
	type amounts = map[corev1.ResourceName]string
	gold := definition("gold", func(d *openmcpv1alpha1.QuotaDefinition) {
		d.Template.Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating", "NotTerminating"}
	})
	tests := map[string]struct {
		reason, kind, resource string
		old, new               any
		asked                  []string
	}{
		"Increase":      {"new amounts", "QuotaIncrease", "quotaincreases", nil, quotaIncrease(amounts{"pods": "1"}), []string{"spec"}},
		"IncreaseSame":  {"nothing has changed", "QuotaIncrease", "quotaincreases", quotaIncrease(amounts{"pods": "1"}), quotaIncrease(amounts{"pods": "1000m"}), nil},
		"Config":        {"each definition", "QuotaServiceConfig", "quotaserviceconfigs", nil, quotaServiceConfig(definition("silver", nil), gold), []string{"spec.quotas[0].template.spec", "spec.quotas[1].template.spec"}},
		"ConfigChanged": {"the definition that is new", "QuotaServiceConfig", "quotaserviceconfigs", quotaServiceConfig(gold), quotaServiceConfig(gold, definition("silver", nil)), []string{"spec.quotas[1].template.spec"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			operation := admissionv1.Create
			if tt.old != nil {
				operation = admissionv1.Update
			}
			body := review(t, operation, tt.kind, tt.resource, "alice", tt.old, tt.new)
			body = []byte(strings.ReplaceAll(string(body), `"group":"quota.miloapis.com"`, `"group":"openmcp.cloud"`))
			webhooks := quiet()
			var asked []string
			answer := func(errs func(path *field.Path) field.ErrorList, err error) *admissionv1.AdmissionResponse {
				asked = nil
				webhooks.checkQuotaSpec = func(path *field.Path) (field.ErrorList, error) {
					asked = append(asked, path.String())
					return errs(path), err
				}
				return send(t, webhooks.Validation(), body)
			}
			none := func(*field.Path) field.ErrorList { return nil }
			if response := answer(none, nil); !response.Allowed {
				t.Errorf("%s: without an objection it is refused: %v", tt.reason, response.Result)
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("%s: what is asked about (-want +got):\n%s", tt.reason, diff)
			}
			if tt.asked == nil {
				return
			}
			conflicting := func(path *field.Path) field.ErrorList {
				return field.ErrorList{field.Invalid(path.Child("scopes"), "x", "conflicting scopes")}
			}
			response := answer(conflicting, nil)
			if response.Allowed || response.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(response.Result.Message, tt.asked[0]+".scopes: Invalid value: \"x\": conflicting scopes") {
				t.Errorf("%s: with an objection the answer is %+v", tt.reason, response)
			}
			if response := answer(none, errors.New("no route to host")); response.Allowed || response.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("%s: where nobody can tell the answer is %+v", tt.reason, response)
			}
		})
	}
}

func TestQuotaServiceConfigWarnings(t *testing.T) {
	all := definition("all", func(d *openmcpv1alpha1.QuotaDefinition) { d.Selector = nil })
	adding := definition("adding", func(d *openmcpv1alpha1.QuotaDefinition) {
		d.Mode, d.DeleteIneffectiveQuotas = openmcpv1alpha1.ModeCumulative, true
	})
	body := review(t, admissionv1.Create, "QuotaServiceConfig", "quotaserviceconfigs", "alice", nil, quotaServiceConfig(adding, all, definition("gold", nil)))
	body = []byte(strings.ReplaceAll(string(body), `"group":"quota.miloapis.com"`, `"group":"openmcp.cloud"`))
	want := []string{
		"definition adding deletes only QuotaIncreases that name no resource: in cumulative mode every other has an effect",
		"definition gold applies to no namespace: all comes first and selects all; put it last",
	}
	if got := send(t, quiet().Validation(), body).Warnings; !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}
