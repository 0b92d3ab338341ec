package notification

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// receiver keeps the last delivery, and answers with a status.
type receiver struct {
	*httptest.Server
	status int
	header http.Header
	body   []byte
	posts  int
}

func newReceiver(t *testing.T, status int) *receiver {
	r := &receiver{status: status}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, post *http.Request) {
	r.posts++
	r.header = post.Header
	r.body, _ = io.ReadAll(post.Body) // a test compares it
	if r.status == http.StatusTemporaryRedirect {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(r.status)
}

func pendingRequest() *quotav1alpha1.QuotaRequest {
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "more", UID: "6b3c"}}
	request.Spec.ConsumerRef = quotav1alpha1.ConsumerRef{APIGroup: "g", Kind: "Project", Name: "web"}
	apimeta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{
		Type: quotav1alpha1.ConditionApproved, Status: metav1.ConditionUnknown, Reason: quotav1alpha1.ReasonPending,
		LastTransitionTime: metav1.Unix(1000, 0),
	})
	return request
}

func pendingEvent(t *testing.T) *cloudevents.Event {
	t.Helper()
	request := pendingRequest()
	request.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	event, err := newEvent(request, due(request))
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func TestEvent(t *testing.T) {
	to := newReceiver(t, http.StatusNoContent)
	if err := NewSender(to.URL, "", wall{}).send(t.Context(), pendingEvent(t)); err != nil {
		t.Fatal(err)
	}
	if got := to.header.Get("Content-Type"); got != "application/cloudevents+json" {
		t.Errorf("the content type is %q, want that of structured mode", got)
	}
	if to.header.Get(standardwebhooks.HeaderWebhookSignature) != "" {
		t.Error("an event is signed without a secret")
	}
	got := map[string]any{}
	if err := json.Unmarshal(to.body, &got); err != nil {
		t.Fatal(err)
	}
	for attribute, want := range map[string]string{
		"specversion": "1.0", "type": "com.miloapis.quota.request.pending", "id": "6b3c-pending", "subject": "Project/web",
		"source": "/apis/quota.miloapis.com/v1alpha1/namespaces/acme/quotarequests/more",
		"time":   "1970-01-01T00:16:40Z", "datacontenttype": "application/json",
	} {
		if got[attribute] != want {
			t.Errorf("%s is %v, want %s", attribute, got[attribute], want)
		}
	}
	data := got["data"].(map[string]any)
	if _, has := data["metadata"].(map[string]any)["managedFields"]; has || data["kind"] != "QuotaRequest" {
		t.Errorf("the data is %v, want the QuotaRequest without managedFields", data)
	}
}

func TestDue(t *testing.T) {
	for name, tt := range map[string]struct {
		reason string
		change func(*quotav1alpha1.QuotaRequest)
		want   bool
	}{
		"pending":  {"the receiver knows nothing", func(*quotav1alpha1.QuotaRequest) {}, true},
		"notified": {"the receiver knows the state", func(r *quotav1alpha1.QuotaRequest) { r.Status.Notified = quotav1alpha1.ReasonPending }, false},
		"approved": {"the receiver knows the state before", func(r *quotav1alpha1.QuotaRequest) {
			r.Status.Notified, r.Status.Conditions[0].Reason = quotav1alpha1.ReasonPending, quotav1alpha1.ReasonApproved
		}, true},
		"new": {"there is no state yet", func(r *quotav1alpha1.QuotaRequest) { r.Status.Conditions = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			request := pendingRequest()
			tt.change(request)
			if got := due(request) != nil; got != tt.want {
				t.Errorf("%s: due is %t, want %t", tt.reason, got, tt.want)
			}
		})
	}
}

func TestSignature(t *testing.T) {
	to, file := newReceiver(t, http.StatusOK), filepath.Join(t.TempDir(), "secret")
	sender := NewSender(to.URL, file, wall{})
	raw, _ := standardwebhooks.NewWebhookRaw([]byte("not base64 but long enough"))
	encoded, err := standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	// The cases are rotations of one file: a map has another order in each run.
	for name, tt := range map[string]struct {
		content string
		key     *standardwebhooks.Webhook
		err     string
	}{
		"raw":                {"not base64 but long enough", raw, ""},
		"raw with a newline": {"not base64 but long enough\n", raw, ""},
		"base64":             {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", encoded, ""},
		"invalid base64":     {"whsec_???", nil, "is not in base64"},
		"empty":              {"\n", nil, "is empty"},
		"only a prefix":      {"whsec_", nil, "is empty"},
		"long":               {strings.Repeat("a", secretBytesMax+1), nil, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			posts, err := to.posts, sender.send(t.Context(), pendingEvent(t))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || to.posts != posts {
					t.Errorf("got %v, and %d events, want %q and none", err, to.posts-posts, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.key.Verify(to.body, to.header); err != nil {
				t.Error(err)
			}
			if id := to.header.Get(standardwebhooks.HeaderWebhookID); id != "6b3c-pending" {
				t.Errorf("the id is %q, want that of the event", id)
			}
		})
	}
	if err := NewSender(to.URL, file+"-missing", wall{}).send(t.Context(), pendingEvent(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v without the file of the secret", err)
	}
}

func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		status             int
		isAccepted, isSlow bool
	}{
		"ok":          {200, true, false},
		"accepted":    {202, true, false},
		"redirected":  {307, false, true},
		"forbidden":   {403, false, true},
		"gone":        {410, false, true},
		"timeout":     {408, false, false},
		"throttled":   {429, false, false},
		"broken":      {500, false, false},
		"unavailable": {503, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			to := newReceiver(t, tt.status)
			err := NewSender(to.URL, "", wall{}).send(t.Context(), pendingEvent(t))
			var status *statusError
			if (err == nil) != tt.isAccepted || err != nil && (!errors.As(err, &status) || status.isLasting() != tt.isSlow) {
				t.Errorf("got %v, want accepted: %t, slow: %t", err, tt.isAccepted, tt.isSlow)
			}
			if to.posts != 1 {
				t.Errorf("got %d posts, want one", to.posts)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		to := newReceiver(t, 200)
		to.Close()
		err := NewSender(to.URL+"?token=confidential", "", wall{}).send(t.Context(), pendingEvent(t))
		if err == nil || strings.Contains(err.Error(), "confidential") {
			t.Errorf("got %v, want an error without the URL", err)
		}
	})
}
