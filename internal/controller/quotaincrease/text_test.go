package quotaincrease

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
)

func TestCut(t *testing.T) {
	for name, tt := range map[string]struct{ reason, text, want string }{
		"Short":      {"it is kept", "100 %", "100 %"},
		"Longest":    {"it is kept", strings.Repeat("a", textBytesMax), strings.Repeat("a", textBytesMax)},
		"TooLong":    {"what is cut off can be told", strings.Repeat("a", textBytesMax+1), strings.Repeat("a", textBytesMax-3) + "..."},
		"WithinRune": {"no character is cut in two", strings.Repeat("é", textBytesMax), strings.Repeat("é", textBytesMax/2-2) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cut(tt.text); got != tt.want || !utf8.ValidString(got) {
				t.Errorf("%s: got %d bytes, want %d", tt.reason, len(got), len(tt.want))
			}
		})
	}
}

// The reconciler writes a part of a long description of a quota.
func TestLongTexts(t *testing.T) {
	many := corev1.ResourceList{}
	for i := range 2000 {
		many[corev1.ResourceName(fmt.Sprintf("count/kind-%04d.a-group-with-a-long-name.example.com", i))] = resource.MustParse("1")
	}
	for _, mode := range []openmcpv1alpha1.QuotaMode{openmcpv1alpha1.ModeCumulative, openmcpv1alpha1.ModeMaximum} {
		config, more := platform(mode), quotaIncrease("more")
		more.Spec.Hard = many
		config.Spec.Quotas[0].PreviewDeletion = true
		if mode == openmcpv1alpha1.ModeMaximum { // to make it superfluous
			config.Spec.Quotas[0].Template.Spec.Hard = many
		}
		w := newWorld(t, config, more)
		w.settled()
		quota, err := w.storedQuota(t.Context(), team, "base")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(more), more); err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{
			"composition":   quota.Annotations[openmcpv1alpha1.AnnotationComposition],
			"effect":        more.Annotations[openmcpv1alpha1.AnnotationEffect],
			"to-be-deleted": more.Annotations[openmcpv1alpha1.AnnotationToBeDeleted],
			"condition":     more.Status.Conditions[0].Message,
		}
		for name, text := range texts {
			isEmpty := name == "effect" && mode == openmcpv1alpha1.ModeMaximum || name == "to-be-deleted" && mode == openmcpv1alpha1.ModeCumulative
			if !isEmpty && (len(text) != textBytesMax || !strings.HasSuffix(text, ellipsis)) {
				t.Errorf("in mode %s, the %s is %d bytes long, want %d", mode, name, len(text), textBytesMax)
			}
		}
	}
}
