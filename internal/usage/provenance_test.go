package usage

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestComposition(t *testing.T) {
	now := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	march := metav1.NewTime(time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC))
	over := metav1.NewTime(now.Add(-time.Hour))
	allowance := func(amount int64, until *metav1.Time) quotav1alpha1.Allowance {
		return quotav1alpha1.Allowance{ResourceType: "maps", Buckets: []quotav1alpha1.Bucket{{Amount: amount}}, Period: quotav1alpha1.Period{NotAfter: until}}
	}
	grant := func(name string, labels, annotations map[string]string, allowances ...quotav1alpha1.Allowance) quotav1alpha1.ResourceGrant {
		return quotav1alpha1.ResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels, Annotations: annotations},
			Spec:       quotav1alpha1.ResourceGrantSpec{Allowances: allowances},
		}
	}
	byPolicy := map[string]string{quotav1alpha1.LabelPolicy: "gold", quotav1alpha1.LabelPolicyUID: "1", quotav1alpha1.LabelSource: "gold"}
	ofPlan := map[string]string{quotav1alpha1.LabelPolicy: "gold", quotav1alpha1.LabelPolicyUID: "1", quotav1alpha1.LabelSource: "plan-gold"}
	onRequest := map[string]string{quotav1alpha1.AnnotationRequest: "12", quotav1alpha1.AnnotationRequestUID: "2"}
	for name, tt := range map[string]struct {
		reason string
		refs   map[string]int64
		grants []quotav1alpha1.ResourceGrant
		want   string
	}{
		"policy and request": {"each part has its origin and its end", map[string]int64{"gold": 8, "request-2": 2},
			[]quotav1alpha1.ResourceGrant{grant("gold", byPolicy, nil, allowance(8, nil)), grant("request-2", nil, onRequest, allowance(2, &march))},
			"10 maps = policy gold: 8 maps + request 12: 2 maps until 2026-03-31 00:00 UTC"},
		"plan":     {"a template may name another source", map[string]int64{"gold": 10}, []quotav1alpha1.ResourceGrant{grant("gold", ofPlan, nil, allowance(10, nil))}, "10 maps = policy plan-gold: 10 maps"},
		"forged":   {"without the mark of Bursar, a label makes no policy", map[string]int64{"base": 10}, []quotav1alpha1.ResourceGrant{grant("base", map[string]string{quotav1alpha1.LabelPolicy: "gold"}, nil, allowance(10, nil))}, "10 maps = grant base: 10 maps"},
		"unseen":   {"a grant that the user may not see still has an amount", map[string]int64{"base": 10}, nil, "10 maps = grant base: 10 maps"},
		"two ends": {"allowances that end at different times are parts of their own, and one that is over is none", map[string]int64{"base": 10}, []quotav1alpha1.ResourceGrant{grant("base", nil, nil, allowance(4, &march), allowance(6, nil), allowance(5, &over))}, "10 maps = grant base: 6 maps + grant base: 4 maps until 2026-03-31 00:00 UTC"},
		"held":     {"what counts is in the limit, not in a change that a cap holds back", map[string]int64{"base": 10}, []quotav1alpha1.ResourceGrant{grant("base", nil, nil, allowance(99, &march))}, "10 maps = grant base: 10 maps"},
		"nothing":  {"nothing is granted", nil, nil, ""},
	} {
		var refs []quotav1alpha1.EffectiveGrantRef
		for _, each := range []string{"base", "gold", "request-2"} {
			if amount, isGiven := tt.refs[each]; isGiven {
				refs = append(refs, quotav1alpha1.EffectiveGrantRef{Namespace: "shop", Name: each, Amount: amount})
			}
		}
		if got := Composition(Unit{Name: "map", Factor: 1, Base: "map"}, 10, PartsOf("maps", refs, tt.grants, now)); got != tt.want {
			t.Errorf("%s: %s: got %q, want %q", name, tt.reason, got, tt.want)
		}
	}
}
