package enforce

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// A request without enforcement does not wait for quota in release. The handler admits it, charges it, and warns of
// the excess.
func TestNotEnforcedIsDecidedAtOnce(t *testing.T) {
	tests := map[string]struct {
		reason string
		review func(*scene) *admissionv1.AdmissionResponse
		// want is the reserved amount afterwards, and says the expected text of the warning.
		want ledger.Amount
		says string
	}{
		"create": {
			"it may still fail, and is charged once it exists",
			func(s *scene) *admissionv1.AdmissionResponse { return s.createNumbered(false, 4) },
			0, "requested: 4 maps, used: 8, limited: 10",
		},
		"create, dry run": {
			"nothing is charged",
			func(s *scene) *admissionv1.AdmissionResponse { return s.createNumbered(true, 4) },
			0, "requested: 4 maps, used: 8, limited: 10",
		},
		"update": {
			"what it costs more counts once it is made",
			func(s *scene) *admissionv1.AdmissionResponse {
				return s.update(s, false, numbered("1", 0), numbered("1", 5))
			},
			0, "requested: 5 maps, used: 8, limited: 10",
		},
		"update, dry run": {
			"nothing is charged",
			func(s *scene) *admissionv1.AdmissionResponse {
				return s.update(s, true, numbered("1", 0), numbered("1", 5))
			},
			0, "requested: 5 maps, used: 8, limited: 10",
		},
		"update that asks no more": {
			"the object is not to blame",
			func(s *scene) *admissionv1.AdmissionResponse {
				return s.update(s, false, numbered("1", 5), numbered("1", 4))
			},
			0, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, 10)
				s.follow(quotav1alpha1.EnforcementModeWarn, "trigger.data.n != '0'")
				s.use(8)
				s.Store.ExpectRelease(organization("acme"), "others")
				synctest.Wait()

				began := time.Now()
				answer := tt.review(s)

				if took := time.Since(began); took != 0 || !answer.Allowed {
					t.Errorf("%s: allowed is %t after %s, want that it passes at once", tt.reason, answer.Allowed, took)
				}
				if said := strings.Join(answer.Warnings, " "); !strings.Contains(said, tt.says) || said != "" && tt.says == "" {
					t.Errorf("%s: the user is warned with %q, want %q", tt.reason, said, tt.says)
				}
				if got := s.reserved(); got != tt.want {
					t.Errorf("%s: %d is reserved, want %d", tt.reason, got, tt.want)
				}
			})
		})
	}
}

// Where objects count, a create that nobody enforces a limit for holds nothing. A claim of record takes its charge at
// once, because nobody knows it later.
func TestNotEnforcedHoldsWhatIsOfRecord(t *testing.T) {
	for _, mode := range []quotav1alpha1.EnforcementMode{quotav1alpha1.EnforcementModeWarn, quotav1alpha1.EnforcementModeAudit} {
		t.Run(string(mode), func(t *testing.T) {
			s := newScene(t, 0)
			s.policyWith("acme", "acme", "true", func(p *quotav1alpha1.ClaimCreationPolicySpec) { p.EnforcementMode = mode })
			s.policyWith("globex", "globex", "true", func(p *quotav1alpha1.ClaimCreationPolicySpec) {
				p.EnforcementMode = mode
				counted(p)
			})
			s.wantAllowed(s.review("1"))
			s.wantReservations(1, 0)
		})
	}
}
