package audited

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// failure says how surely a request has failed.
type failure int

const (
	// noFailure: the request goes on, or has made its object.
	noFailure failure = iota
	// possibleFailure: a write may still take effect. It no longer can after [ledgerstore.ReservationMargin].
	possibleFailure
	// certainFailure: there will be no further write.
	certainFailure
)

// failureOf returns how surely the request of an event has failed. reviews is how many reviews the request had; with
// several, all but the last were of a superseded object.
//
// A response with an error does not prove that there is no object: the API server may have failed to encode it. So
// whoever ends a reservation looks for the object first.
func failureOf(event *auditinternal.Event, reviews int) failure {
	switch {
	case event.Stage == auditinternal.StagePanic:
		return possibleFailure
	case event.Stage != auditinternal.StageResponseComplete || event.ResponseStatus == nil:
		return noFailure
	case event.ResponseStatus.Code < http.StatusBadRequest && reviews > 1:
		return certainFailure // only the last review was of the object
	case event.ResponseStatus.Code < http.StatusBadRequest:
		return noFailure
	case event.ResponseStatus.Code < http.StatusInternalServerError || isRejected(event.ResponseStatus):
		return certainFailure
	default:
		return possibleFailure
	}
}

// isRejected reports whether a server error came before the write, or instead of it. Clients cannot choose how the
// message of an error begins.
func isRejected(status *metav1.Status) bool {
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
