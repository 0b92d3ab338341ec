package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// request is a request in the terms of RBAC.
type request struct {
	group, resource, verb, name string
}

// requests remembers a user's requests to an API server, and the forbidden ones.
type requests struct {
	mu        sync.Mutex
	made      map[request]bool
	forbidden []string
}

// recorder is a transport. It notes each request.
type recorder struct {
	*requests
	next http.RoundTripper
}

var requestInfo = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// RoundTrip implements [http.RoundTripper].
func (r recorder) RoundTrip(httpRequest *http.Request) (*http.Response, error) {
	info, err := requestInfo.NewRequestInfo(httpRequest)
	if err != nil {
		return nil, err
	}
	if info.IsResourceRequest {
		r.remember(info)
	}
	response, err := r.next.RoundTrip(httpRequest)
	if err != nil || response.StatusCode != http.StatusForbidden {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // ReadAll has reached its end
	response.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	// A denial by a webhook is no missing permission: a probe should get a denial.
	if !strings.Contains(string(body), "denied the request") {
		r.forbidden = append(r.forbidden, fmt.Sprintf("%s %s: %q", httpRequest.Method, httpRequest.URL, body))
	}
	return response, nil
}

func (r *requests) remember(info *apirequest.RequestInfo) {
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = map[request]bool{}
	}
	r.made[request{info.APIGroup, resource, info.Verb, info.Name}] = true
}

// refusals returns the forbidden requests.
func (r *requests) refusals() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.forbidden)
}

// have reports whether the user made a request. An empty name stands for any.
func (r *requests) have(group, resource, verb, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for made := range r.made {
		if made.group == group && made.resource == resource && made.verb == verb && (name == "" || made.name == name) {
			return true
		}
	}
	return false
}
