package enforce

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/admission/review"
)

// helpful is a replica that knows every policy.
type helpful struct{ alone }

func (helpful) ForwardToAny(context.Context, string, []byte) ([]byte, bool) {
	denied := review.Denied(http.StatusForbidden, "Forbidden", "exceeded quota")
	denied.UID = "round-trip"
	answer, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: reviewType, Response: denied})
	return answer, err == nil
}

// A replica without an effective generation of a policy asks the others, and admits nothing by itself.
func TestPolicyThatIsNotInEffectHere(t *testing.T) {
	s := newScene(t, 1)
	unregistered := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "later", Generation: 1}}
	unregistered.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"}
	template := &unregistered.Spec.Target.ResourceClaimTemplate.Spec
	template.ConsumerRef = organization("acme")
	template.Requests = []quotav1alpha1.ResourceRequestTemplate{{ResourceType: "unregistered", Amount: 1}}
	unregistered.Status.Effective = &quotav1alpha1.EffectivePolicy{Generation: 1}
	if errs := s.Catalog.SetPolicy(unregistered); len(errs) > 0 {
		t.Fatal(errs)
	}

	s.wantDenied(s.review("1"), http.StatusServiceUnavailable, "ClaimCreationPolicy later applies", "try again")
	s.wantReservations(0, 0)

	s.Replicas = helpful{}
	s.wantDenied(s.review("2"), http.StatusForbidden, "exceeded quota")
	s.wantReservations(0, 0)

	s.Catalog.RemovePolicy("later")
	if answer := s.review("3"); !answer.Allowed {
		t.Errorf("every policy is in effect, and the object is refused: %s", answer.Result.Message)
	}
}
