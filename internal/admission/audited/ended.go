package audited

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// certainty says how far a request has ended.
type certainty int

const (
	// undone: the request goes on, or has made its object.
	undone certainty = iota
	// uncertain: a write may still take effect. It no longer can after [ledgerstore.ReservationMargin].
	uncertain
	// certain: there will be no further write.
	certain
)

// endOf returns how far the request of an event has ended. reviews is the number of its reviews.
//
// A response with an error does not prove that there is no object: the API server may have failed to encode it. So
// whoever ends a reservation looks for the object first.
func endOf(event *auditinternal.Event, reviews int) certainty {
	switch {
	case event.Stage == auditinternal.StagePanic:
		return uncertain
	case event.Stage != auditinternal.StageResponseComplete || event.ResponseStatus == nil:
		return undone
	case event.ResponseStatus.Code < http.StatusBadRequest && reviews > 1:
		return certain // only the last review was of the object
	case event.ResponseStatus.Code < http.StatusBadRequest:
		return undone
	case event.ResponseStatus.Code < http.StatusInternalServerError || isRefused(event.ResponseStatus):
		return certain
	default:
		return uncertain
	}
}

// isRefused reports whether a server error came before the write, or instead of it. Clients cannot choose how the
// message of an error begins.
func isRefused(status *metav1.Status) bool {
	for _, beginning := range []string{
		"etcdserver: request is too large",
		"rpc error: code = ResourceExhausted desc = trying to send message larger than max",
		"Internal error occurred: failed calling webhook ",
		"admission webhook ",
	} {
		if strings.HasPrefix(status.Message, beginning) {
			return true
		}
	}
	return false
}
