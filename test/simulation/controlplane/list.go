package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// list answers a list: as of now, or, if any version will do, as the server has seen it.
func (s *Server) list(r *request) *http.Response {
	query := r.URL.Query()
	page, err := s.pageOf(r.Resource, query)
	if err != nil {
		return failed(err)
	}
	s.store.mu.Lock()
	existing := s.store.existingLocked(r.Resource, page.version)
	s.store.mu.Unlock()

	matches := matcherOf(query)
	items := []json.RawMessage{}
	metadata := map[string]any{"resourceVersion": strconv.FormatInt(page.version, 10)}
	for i := page.first; i < len(existing); i++ {
		if page.limit > 0 && len(items) == page.limit {
			metadata["continue"] = fmt.Sprintf("%d/%d", page.version, i)
			break
		}
		if stored := existing[i]; (r.Namespace == "" || r.Namespace == stored.Namespace) && matches(stored) {
			items = append(items, stored.in(r.onlyMeta))
		}
	}
	kind := kinds[r.Resource]
	if r.onlyMeta {
		kind = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	}
	return answered(http.StatusOK, encode(map[string]any{
		"apiVersion": kind.APIVersion, "kind": kind.Kind + "List", "items": items, "metadata": metadata,
	}))
}

// page is a part of a list: at most limit objects from the first one, as of a version. A limit of 0 is none.
type page struct {
	version      int64
	first, limit int
}

func (s *Server) pageOf(resource string, query url.Values) (page, error) {
	p := page{}
	p.limit, _ = strconv.Atoi(query.Get("limit"))
	switch token := query.Get("continue"); {
	case token != "":
		if _, err := fmt.Sscanf(token, "%d/%d", &p.version, &p.first); err != nil {
			return p, &errorOf{400, metav1.StatusReasonBadRequest, ""}
		}
		if s.store.isCompacted(p.version) {
			return p, &errorOf{410, metav1.StatusReasonExpired, ""}
		}
	case query.Get("resourceVersion") == "0":
		p.version = s.seen(resource)
	default:
		p.version = s.store.Version()
		s.see(resource, p.version)
	}
	return p, nil
}

func (r *Revision) in(onlyMeta bool) json.RawMessage {
	if onlyMeta {
		return r.metadata()
	}
	return r.Object
}

// matcherOf returns whether an object matches the selectors of a request.
func matcherOf(query url.Values) func(*Revision) bool {
	byField, byLabel := fields.ParseSelectorOrDie(query.Get("fieldSelector")), labels.SelectorFromSet(nil)
	if labelSelector := query.Get("labelSelector"); labelSelector != "" {
		parsed, err := labels.Parse(labelSelector)
		if err != nil {
			panic(err)
		}
		byLabel = parsed
	}
	return func(r *Revision) bool {
		for _, requirement := range byField.Requirements() {
			value, _, _ := unstructured.NestedString(r.Content, strings.Split(requirement.Field, ".")...)
			if value != requirement.Value {
				return false
			}
		}
		object := unstructured.Unstructured{Object: r.Content}
		return byLabel.Matches(labels.Set(object.GetLabels()))
	}
}
