// Package controlplane simulates etcd, API servers and the network to them, in memory and without a goroutine of its
// own. It has the troubles of clients in reality: lost, late and unanswered writes, conflicts, API servers that lag
// behind, end and come back, and compacted versions. Package simulation decides when.
package controlplane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Key names an object.
type Key struct{ Resource, Namespace, Name string }

// Revision is one stored version of one object.
type Revision struct {
	Key
	Event   watch.EventType
	Version int64
	// Object is the object in JSON. After a deletion it is the last one.
	Object []byte
	// Content is the same object as Object. Do not modify it.
	Content map[string]any
	// former is the revision of the object before, or nil.
	former  *Revision
	once    sync.Once
	partial []byte
}

// metadata returns the object reduced to its metadata, in JSON.
func (r *Revision) metadata() []byte {
	r.once.Do(func() {
		r.partial = encode(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": r.Content["metadata"]})
	})
	return r.partial
}

// Observer receives each revision in order, while nobody else can store anything.
type Observer interface{ Stored(r *Revision) }

// Store is etcd: it has every revision since the last compaction. Create it with [NewStore].
type Store struct {
	observer Observer

	mu        sync.Mutex
	revisions []*Revision // the one of version v is at v-1
	current   map[Key]*Revision
	compacted int64
	created   int
	servers   []*Server
}

// NewStore returns an empty store.
func NewStore(observer Observer) *Store {
	return &Store{observer: observer, current: map[Key]*Revision{}}
}

// Version returns the version of the latest revision.
func (s *Store) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.revisions))
}

// Compact forgets the history: a watch from an earlier version fails.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = int64(len(s.revisions))
}

// Each calls f for each existing object of a resource, in the order of their versions. f must not call the store.
func (s *Store) Each(resource string, f func(r *Revision)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.existingLocked(resource, int64(len(s.revisions))) {
		f(r)
	}
}

func (s *Store) isCompacted(version int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return version < s.compacted
}

// existingLocked returns the objects of a resource at a version, in the order of their versions.
func (s *Store) existingLocked(resource string, version int64) []*Revision {
	if version == int64(len(s.revisions)) {
		return slices.SortedFunc(func(yield func(*Revision) bool) {
			for key, r := range s.current {
				if key.Resource == resource && !yield(r) {
					return
				}
			}
		}, func(a, b *Revision) int { return cmp.Compare(a.Version, b.Version) })
	}

	latest := map[Key]*Revision{}
	for _, r := range s.revisions[:version] {
		if r.Resource == resource {
			latest[r.Key] = r
		}
	}
	var existing []*Revision
	for _, r := range s.revisions[:version] {
		if r.Resource == resource && latest[r.Key] == r && r.Event != watch.Deleted {
			existing = append(existing, r)
		}
	}
	return existing
}

// get returns an existing object, or nil.
func (s *Store) get(key Key) *Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current[key]
}

// errorOf is an error of the API server.
type errorOf struct {
	code   int32
	reason metav1.StatusReason
	name   string
}

func (e *errorOf) Error() string { return fmt.Sprintf("%d %s", e.code, e.reason) }

var (
	errExists   = &errorOf{409, metav1.StatusReasonAlreadyExists, ""}
	errConflict = &errorOf{409, metav1.StatusReasonConflict, ""}
	errAway     = &errorOf{503, metav1.StatusReasonServiceUnavailable, ""}
)

// Create stores a new object. An error means that the name is taken.
func (s *Store) Create(key Key, object any) (*Revision, error) {
	return s.create(key, decode(encode(object)))
}

// Delete deletes the object of a UID, or marks it as deleted while it has finalizers.
func (s *Store) Delete(key Key, uid types.UID) {
	_, _ = s.change(key, func(content map[string]any) (map[string]any, error) {
		object := unstructured.Unstructured{Object: content}
		if object.GetUID() != uid {
			return nil, errConflict
		}
		if object.GetDeletionTimestamp() == nil {
			object.SetDeletionTimestamp(new(metav1.Now()))
		}
		return content, nil
	})
}

// Change stores the next version of an object, after a change of its metadata.
func (s *Store) Change(key Key, change func(metav1.Object)) {
	_, _ = s.change(key, func(content map[string]any) (map[string]any, error) {
		change(&unstructured.Unstructured{Object: content})
		return content, nil
	})
}

// Update stores the next version of an object, unless it has changed since. Then it returns an error.
func (s *Store) Update(key Key, after metav1.Object) error {
	_, err := s.change(key, func(content map[string]any) (map[string]any, error) {
		stored := unstructured.Unstructured{Object: content}
		if stored.GetUID() != after.GetUID() || stored.GetResourceVersion() != after.GetResourceVersion() {
			return nil, errConflict
		}
		return decode(encode(after)), nil
	})
	return err
}

// create stores a new object.
func (s *Store) create(key Key, content map[string]any) (*Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current[key] != nil {
		return nil, errExists
	}
	s.created++
	object := unstructured.Unstructured{Object: content}
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.created)))
	}
	object.SetCreationTimestamp(metav1.NewTime(time.Now()))
	object.SetGeneration(1)
	return s.putLocked(key, watch.Added, content), nil
}

// change replaces an object by the result of change for a copy of it, or fails with its error.
func (s *Store) change(key Key, change func(content map[string]any) (map[string]any, error)) (*Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.current[key]
	if before == nil {
		return nil, &errorOf{404, metav1.StatusReasonNotFound, key.Name}
	}
	content, err := change(runtime.DeepCopyJSON(before.Content))
	if err != nil {
		return nil, err
	}
	object := unstructured.Unstructured{Object: content}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return s.putLocked(key, watch.Deleted, content), nil
	}
	return s.putLocked(key, watch.Modified, content), nil
}

// putLocked stores a revision of an object.
func (s *Store) putLocked(key Key, event watch.EventType, content map[string]any) *Revision {
	version := int64(len(s.revisions)) + 1
	meta := content["metadata"].(map[string]any)
	meta["resourceVersion"] = strconv.FormatInt(version, 10)
	r := &Revision{Key: key, Event: event, Version: version, Content: content, Object: encode(content), former: s.current[key]}
	s.revisions = append(s.revisions, r)
	if event == watch.Deleted {
		delete(s.current, key)
	} else {
		s.current[key] = r
	}
	s.observer.Stored(r)
	for _, server := range s.servers {
		server.expect(key.Resource, version)
	}
	return r
}

// encode returns JSON. Everything stored has come from JSON.
func encode(content any) []byte {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return raw
}

// decode returns an object from stored JSON.
func decode(raw []byte) map[string]any {
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		panic(err)
	}
	return content
}
