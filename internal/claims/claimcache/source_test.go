package claimcache

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/scheme"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// pagedAPI is an API server with a claim on each page. Its watches are silent.
type pagedAPI struct {
	claims []*quotav1alpha1.ResourceClaim
	// fail returns the status code and reason of the nth request's failure, from 1 on, or 0.
	fail func(nth int, page string) (code int32, reason metav1.StatusReason)
	// listed are the requested pages; the first is "".
	listed []string
	// watched is closed at the first watch, and watchedFrom is its version.
	watched     chan struct{}
	watchedFrom string
}

func (a *pagedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	if query.Has("watch") {
		if isFollowing := query.Has("timeoutSeconds"); isFollowing { // and no watch beside a list
			a.watchedFrom = query.Get("resourceVersion")
			close(a.watched)
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	page := query.Get("continue")
	a.listed = append(a.listed, page)
	if code, reason := a.fail(len(a.listed), page); code != 0 {
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
		})
		return
	}
	list := quotav1alpha1.ResourceClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	first, _ := strconv.Atoi(page)
	for i, claim := range a.claims[first:] {
		if i == 1 {
			list.Continue = strconv.Itoa(first + 1)
			break
		}
		list.Items = append(list.Items, *claim)
	}
	_ = json.NewEncoder(w).Encode(list)
}

// The cache keeps the same of a listed claim, although it decodes little of it, and of one from an event.
func TestListReadsEveryPage(t *testing.T) {
	now := metav1.NewTime(time.Unix(1700000000, 0))
	paid, direct, last := claimOf("a", "1", "acme", "object"), claimOf("b", "2", "other", ""), claimOf("c", "3", "acme", "")
	paid.CreationTimestamp, paid.DeletionTimestamp = now, &now
	paid.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "bursar"}}
	paid.Status.Conditions = []metav1.Condition{{Type: quotav1alpha1.ConditionGranted, Status: metav1.ConditionTrue}}
	tests := map[string]struct {
		reason string
		fail   func(nth int, page string) (code int32, reason metav1.StatusReason)
		want   []string
	}{
		"nothing fails": {
			"each page is read once",
			func(int, string) (int32, metav1.StatusReason) { return 0, "" }, []string{"", "1", "2"},
		},
		"a page times out": {
			"it is read again, and those before it are not",
			func(nth int, _ string) (int32, metav1.StatusReason) {
				if nth == 2 {
					return http.StatusGatewayTimeout, metav1.StatusReasonTimeout
				}
				return 0, ""
			}, []string{"", "1", "1", "2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := &pagedAPI{claims: []*quotav1alpha1.ResourceClaim{paid, direct, last}, fail: tt.fail, watched: make(chan struct{})}
			known := follow(t, api)
			if diff := cmp.Diff(tt.want, api.listed); diff != "" {
				t.Errorf("%s: pages (-want +got):\n%s", tt.reason, diff)
			}
			if api.watchedFrom != "7" {
				t.Errorf("changes are followed from version %q on, want 7", api.watchedFrom)
			}
			if got := len(known.Select(func(*Claim) bool { return true })); got != len(api.claims) {
				t.Errorf("%d claims are known, want %d", got, len(api.claims))
			}
			for _, want := range api.claims {
				got, asEvent := known.Get(Compact(want).NamespacedName), Compact(want)
				if got == nil || *got != *asEvent {
					t.Errorf("claim %s is kept as %+v when it is listed, and as %+v when it comes as an event", want.Name, got, asEvent)
				}
			}
		})
	}
}

// follow runs a cache against an API server until the test ends, and returns it once it has listed and watches.
func follow(t *testing.T, api *pagedAPI) *Cache {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: server.URL}
	config.GroupVersion, config.NegotiatedSerializer = &quotav1alpha1.GroupVersion, serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, ended := New(), make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx, client)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-api.watched:
		return c
	case <-time.After(time.Minute):
		cancel()
		<-ended
		server.Close()
		t.Fatalf("the claims are not listed; asked for were the pages %q", api.listed)
		return nil
	}
}

// failing is an API server with internal errors.
type failing struct{}

func (failing) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Header: http.Header{}, Request: request}, nil
}

// A list does not wait for the next try once its context has ended.
func TestListEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://server"}
		config.GroupVersion, config.NegotiatedSerializer = &quotav1alpha1.GroupVersion, scheme.Codecs.WithoutConversion()
		client, err := rest.RESTClientForConfigAndClient(config, &http.Client{Transport: failing{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		began := time.Now()
		_, err = listing{client, ""}.list(ctx, "")
		if took := time.Since(began); err == nil || took != time.Millisecond {
			t.Errorf("it ended after %v with %v, want an error when its context ended", took, err)
		}
	})
}
