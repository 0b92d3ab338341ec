package allocation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestUnlimited(t *testing.T) {
	zero := corev1.ResourceList{"pods": {}, "services": {}}
	got := Unlimited(map[string]corev1.ResourceList{"b": {"pods": {}}, "a": nil, "c": zero}, []corev1.ResourceName{"pods", "services"})
	want := []quotav1alpha1.UnlimitedNamespace{
		{Namespace: "a", Resources: []corev1.ResourceName{"pods", "services"}}, {Namespace: "b", Resources: []corev1.ResourceName{"services"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a limit of 0 is one (-want +got):\n%s", diff)
	}
}

func TestLimitedNamesSome(t *testing.T) {
	var unlimited []quotav1alpha1.UnlimitedNamespace
	for i := range 7 {
		unlimited = append(unlimited, quotav1alpha1.UnlimitedNamespace{Namespace: fmt.Sprint("n", i), Resources: []corev1.ResourceName{"pods"}})
	}
	want := "7 of 9 selected namespaces have no ResourceQuota for a capped resource, so nothing limits it there: " +
		"n0 (pods), n1 (pods), n2 (pods), n3 (pods), n4 (pods), 2 more; create one in each, or set spec.default"
	if got := limited(unlimited, 9); got.Status != metav1.ConditionFalse || got.Message != want {
		t.Errorf("got %s %q, want %q", got.Status, got.Message, want)
	}
	for namespaces, want := range map[int]string{1: "1 of 1 selected namespace has no ResourceQuota", 9: "1 of 9 selected namespaces has no ResourceQuota"} {
		if got := limited(unlimited[:1], namespaces); !strings.HasPrefix(got.Message, want) {
			t.Errorf("got %q, want %q", got.Message, want)
		}
	}
	if got := limited(nil, 9); got.Status != metav1.ConditionTrue {
		t.Errorf("got %v where all have limits", got)
	}
}
