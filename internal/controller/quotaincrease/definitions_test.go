package quotaincrease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

// apiServer answers for each definition, by the label that its template has, what is to be answered.
type apiServer struct {
	answers map[string]error
	asked   int
}

func (s *apiServer) check(_ context.Context, path *field.Path, quota *corev1.ResourceQuota) (field.ErrorList, error) {
	s.asked++
	err := s.answers[quota.Labels["definition"]]
	if apierrors.IsInvalid(err) {
		return field.ErrorList{field.Invalid(path, "it", "is wrong")}, nil
	}
	return nil, err
}

var (
	errPolicy  = apierrors.NewForbidden(schema.GroupResource{Resource: "resourcequotas"}, "", errors.New("the cluster's policy wants another label"))
	errInvalid = apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceQuota"}, "", nil)
	errDown    = apierrors.NewInternalError(errors.New("failed calling webhook"))
)

// judgedConfig has a definition of each name, which its template has as a label.
func judgedConfig(names ...string) *openmcpv1alpha1.QuotaServiceConfig {
	c := &openmcpv1alpha1.QuotaServiceConfig{ObjectMeta: metav1.ObjectMeta{Name: "platform", UID: "1", Generation: 1}}
	for _, name := range names {
		c.Spec.Quotas = append(c.Spec.Quotas, openmcpv1alpha1.QuotaDefinition{
			Name: name, Mode: openmcpv1alpha1.ModeMaximum, Template: openmcpv1alpha1.QuotaTemplate{Labels: map[string]string{"definition": name}},
		})
	}
	return c
}

// What the API server says about a definition is the matter of that one alone.
func TestJudge(t *testing.T) {
	tests := map[string]struct {
		reason string
		answer error
		want   verdictKind
		says   string
		again  time.Duration
	}{
		"Good":    {"there is nothing against it, for good", nil, usable, "", 0},
		"Invalid": {"it cannot be, for good", errInvalid, flawed, "spec.quotas[0].template.spec: Invalid value", 0},
		"Policy":  {"a policy may change", errPolicy, flawed, "spec.quotas[0].template: resourcequotas is forbidden: the cluster's policy wants another label", judgeAgain},
		"Down":    {"nobody can tell", errDown, undecided, "failed calling webhook", judgeAgainSoon},
		"Timeout": {"nobody can tell", context.DeadlineExceeded, undecided, "deadline exceeded", judgeAgainSoon},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{answers: map[string]error{"odd": tt.answer}}
			d := &Definitions{Check: server.check, onChange: func() {}}
			verdicts, again := d.judge(t.Context(), judgedConfig("odd", "good"))
			if got := verdicts[0]; got.kind != tt.want || !strings.Contains(got.says, tt.says) {
				t.Errorf("%s: got %+v, want %d that says %q", tt.reason, got, tt.want, tt.says)
			}
			if verdicts[1] != (verdict{}) {
				t.Errorf("the verdict on the other one is %+v", verdicts[1])
			}
			if again < tt.again || again > 2*tt.again {
				t.Errorf("%s: it is asked again after %s, want about %s", tt.reason, again, tt.again)
			}
		})
	}
}

// A verdict is remembered for as long as it is good, and a change of it is told.
func TestJudgeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answers: map[string]error{"gold": errPolicy}}
		changes := 0
		d := &Definitions{Check: server.check, onChange: func() { changes++ }}
		config := judgedConfig("gold")
		want := func(reason string, kind verdictKind, asked, changed int) {
			t.Helper()
			verdicts, _ := d.judge(t.Context(), config)
			if verdicts[0].kind != kind || server.asked != asked || changes != changed {
				t.Errorf("%s: got %+v, asked %d times, and %d changes, want %d, %d and %d", reason, verdicts[0], server.asked, changes, kind, asked, changed)
			}
		}
		want("it is new", flawed, 1, 1)
		time.Sleep(judgeAgain / 2)
		want("it is remembered", flawed, 1, 1)
		time.Sleep(judgeAgain)
		want("it is asked again, and is the same", flawed, 2, 1)
		server.answers["gold"] = nil
		time.Sleep(2 * judgeAgain)
		want("the policy is gone", usable, 3, 2)
		time.Sleep(10 * judgeAgain)
		want("what is good is good", usable, 3, 2)
		config.Generation++
		if verdicts, known := d.verdicts(config); known || verdicts[0].kind != unjudged {
			t.Errorf("the verdict on the next version is %+v already", verdicts)
		}
		want("the next version", usable, 4, 3)
		d.forget(config.Name)
		want("one that came back", usable, 5, 4)
	})
}
