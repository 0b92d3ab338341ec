package audited

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger/ledgerstore"
)

const (
	// WebhookPath is the path for the audit events of an API server.
	WebhookPath = "/audit"
	// EndPath is the path for the reports of other replicas.
	EndPath = "/end"

	// eventsBytesMax bounds a batch of events. By default, the API server sends 400, each of a few kilobytes.
	eventsBytesMax = 16 << 20
	// reviewBytesMax bounds the report of another replica.
	reviewBytesMax = 64 << 10
	// waitingMax bounds the reports that wait for other replicas, senders those under way, and sendTimeout their time.
	waitingMax  = 4096
	senders     = 8
	sendTimeout = 3 * time.Second
)

// Ender ends the reservations of a review once its request has ended, if it decided the review.
type Ender interface{ End(r Review) }

// Replicas are the other replicas.
type Replicas interface {
	// IsPreferred reports whether this replica is the preferred one of a consumer.
	IsPreferred(consumer quotav1alpha1.ConsumerRef) bool
	// Forward sends a body to the preferred replica of a consumer. It returns false if that is this one, or if there is no
	// answer.
	Forward(ctx context.Context, consumer quotav1alpha1.ConsumerRef, path string, body []byte) ([]byte, bool)
}

// Reporter tells the replica that decided a review how its request ended. It drops what it cannot deliver: the
// reservations then end as without a report. Create it with [NewReporter].
type Reporter struct {
	replicas Replicas
	ender    Ender
	log      logr.Logger
	waiting  chan Review
	reported *prometheus.CounterVec
}

// NewReporter returns a reporter for the reviews decided by ender, and by others.
func NewReporter(replicas Replicas, ender Ender, log logr.Logger) *Reporter {
	return &Reporter{
		replicas: replicas, ender: ender, log: log, waiting: make(chan Review, waitingMax),
		reported: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_admission_failed_requests_total",
			Help: "Number of requests that failed after their admission, as the API server reports. Their quota is free at once " +
				"(certain), or after 10 s because a write may still take effect (uncertain).",
		}, []string{"certainty"}),
	}
}

// Collectors returns the metrics.
func (r *Reporter) Collectors() []prometheus.Collector { return []prometheus.Collector{r.reported} }

// ProcessEvents implements [k8s.io/apiserver/pkg/audit.Sink]. It returns quickly.
func (r *Reporter) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, event := range events {
		count := countReviews(event.Annotations)
		if count == 0 {
			continue
		}
		switch failureOf(event, count) {
		case certainFailure:
			r.reported.WithLabelValues("certain").Inc()
			r.report(reviewsIn(event.Annotations))
		case possibleFailure:
			r.reported.WithLabelValues("uncertain").Inc()
			reviews := reviewsIn(event.Annotations)
			time.AfterFunc(ledgerstore.ReservationMargin, func() { r.report(reviews) })
		}
	}
	return true
}

// report ends reviews decided by this replica, and has the preferred replica of their consumer end its own.
func (r *Reporter) report(reviews []Review) {
	for _, review := range reviews {
		r.ender.End(review) // in the request itself: a denial of the next one knows of the end
		if r.replicas.IsPreferred(review.Consumer) {
			continue
		}
		select {
		case r.waiting <- review:
		default:
			r.log.V(1).Info("too many reports of failed requests wait for other replicas; their quota is free later")
		}
	}
}

// Run sends reports to other replicas until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	var group errgroup.Group
	for range senders {
		group.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case review := <-r.waiting:
					r.send(ctx, review)
				}
			}
		})
	}
	return group.Wait()
}

// send reports a review to the preferred replica of its consumer.
func (r *Reporter) send(ctx context.Context, review Review) {
	body, err := json.Marshal(review)
	if err != nil {
		return // all of its fields are texts
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	_, _ = r.replicas.Forward(ctx, review.Consumer, EndPath, body) // it may have become the preferred one itself
}

// EndHandler returns the handler for reports of other replicas.
func (r *Reporter) EndHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var review Review
		if err := json.NewDecoder(http.MaxBytesReader(w, request.Body, reviewBytesMax)).Decode(&review); err != nil {
			http.Error(w, "the report cannot be read", http.StatusBadRequest)
			return
		}
		r.ender.End(review)
		w.WriteHeader(http.StatusOK)
	})
}

// eventList is an EventList of audit.k8s.io/v1, without all that nobody needs here.
type eventList struct {
	metav1.TypeMeta
	Items []struct {
		Stage          auditinternal.Stage `json:"stage"`
		Annotations    map[string]string   `json:"annotations"`
		ResponseStatus *metav1.Status      `json:"responseStatus"`
	} `json:"items"`
}

// WebhookHandler returns the handler for the events of an API server.
func (r *Reporter) WebhookHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var list eventList
		if err := json.NewDecoder(http.MaxBytesReader(w, request.Body, eventsBytesMax)).Decode(&list); err != nil || list.Kind != "EventList" {
			http.Error(w, "the body is not an EventList of audit.k8s.io/v1", http.StatusBadRequest)
			return
		}
		for _, item := range list.Items {
			r.ProcessEvents(&auditinternal.Event{Stage: item.Stage, Annotations: item.Annotations, ResponseStatus: item.ResponseStatus})
		}
		w.WriteHeader(http.StatusOK)
	})
}
