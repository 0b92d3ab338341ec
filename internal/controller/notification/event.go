package notification

import (
	"fmt"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// eventTypePrefix precedes the state in lower case, such as pending.
const eventTypePrefix = "com.miloapis.quota.request."

// due returns the condition without a notification of the receiver, or nil if there is none.
func due(request *quotav1alpha1.QuotaRequest) *metav1.Condition {
	state := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved)
	if state == nil || state.Reason == request.Status.Notified {
		return nil
	}
	return state
}

// newEvent returns the event about a state of a request. A request has each state once, so its UID and the state
// identify the event: a receiver recognizes a repetition by the id.
func newEvent(request *quotav1alpha1.QuotaRequest, state *metav1.Condition) (*cloudevents.Event, error) {
	name, consumer := strings.ToLower(state.Reason), request.Spec.ConsumerRef
	event := cloudevents.New()
	event.SetType(eventTypePrefix + name)
	event.SetSource(fmt.Sprintf("/apis/%s/namespaces/%s/quotarequests/%s", quotav1alpha1.GroupVersion, request.Namespace, request.Name))
	event.SetSubject(consumer.Kind + "/" + consumer.Name)
	// The signature joins its parts with dots, so the id has none.
	event.SetID(string(request.UID) + "-" + name)
	event.SetTime(state.LastTransitionTime.Time)

	data := request.DeepCopy()
	data.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("QuotaRequest"))
	data.ManagedFields = nil
	if err := event.SetData(cloudevents.ApplicationJSON, data); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return &event, event.Validate()
}
