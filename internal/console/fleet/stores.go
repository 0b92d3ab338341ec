package fleet

import (
	"fmt"
	"strconv"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// Row is one resource type of one consumer. It never changes.
type Row struct {
	// Usage has the consumer, the resource type, and amounts in base units.
	usage.Usage
	// Namespace is the namespace of the effective grant.
	Namespace string
	// UsedText and LimitText are the amounts in display units, and Percent is the used part of the limit.
	UsedText, LimitText, Percent string
	// IsMetered is false without an active registration of the resource type.
	IsMetered bool
}

// rowOf returns the row of an effective grant. Rows share equal texts.
func rowOf(shown *quotav1alpha1.EffectiveResourceGrant) *Row {
	status, consumer := &shown.Status, shown.Spec.ConsumerRef
	consumer.APIGroup, consumer.Kind = shared(consumer.APIGroup), shared(consumer.Kind)
	row := &Row{
		Usage: usage.Usage{
			Consumer: consumer, ResourceType: shared(shown.Spec.ResourceType), Used: status.TotalAllocated, Limit: status.TotalLimit,
			IsFeature: status.Feature != "",
		},
		Namespace: shared(shown.Namespace),
		UsedText:  strconv.FormatInt(status.TotalAllocated, 10), LimitText: strconv.FormatInt(status.TotalLimit, 10),
	}
	if d := status.Display; d != nil {
		row.IsMetered, row.UsedText, row.LimitText, row.Percent = true, shared(d.TotalAllocated), shared(d.TotalLimit), shared(d.Percent)
	}
	return row
}

func shared(text string) string { return unique.Make(text).Value() }

// key identifies a row.
type key struct {
	consumer     quotav1alpha1.ConsumerRef
	resourceType string
}

func (r *Row) key() key { return key{r.Consumer, r.ResourceType} }

// quotaStore has the rows. It implements [cache.TransformingStore] so as to keep no object during the read of a list.
type quotaStore struct {
	mu   sync.RWMutex
	rows map[key]*Row
	// isCut reports whether the store omits rows beyond its bound.
	isCut bool
	// isRead closes after the read of all rows.
	isRead chan struct{}
	close  func()
}

var _ cache.TransformingStore = &quotaStore{}

func newQuotaStore() *quotaStore {
	s := &quotaStore{rows: map[key]*Row{}, isRead: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.isRead) })
	return s
}

// Transformer implements [cache.TransformingStore].
func (*quotaStore) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return toRow(object) }
}

func toRow(object any) (*Row, error) {
	switch object := object.(type) {
	case *Row:
		return object, nil
	case *quotav1alpha1.EffectiveResourceGrant:
		return rowOf(object), nil
	default:
		return nil, fmt.Errorf("%T is no EffectiveResourceGrant", object)
	}
}

// Add implements [cache.ReflectorStore].
func (s *quotaStore) Add(object any) error {
	row, err := toRow(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.rows, row)
	return nil
}

// put puts a row, unless there are too many. The caller holds the lock.
func (s *quotaStore) put(rows map[key]*Row, row *Row) {
	if _, isThere := rows[row.key()]; !isThere && len(rows) >= rowsMax {
		s.isCut = true
		return
	}
	rows[row.key()] = row
}

// Update implements [cache.ReflectorStore].
func (s *quotaStore) Update(object any) error { return s.Add(object) }

// Delete implements [cache.ReflectorStore]. After a move to another namespace, an effective grant may exist twice for a
// while, and its row stays.
func (s *quotaStore) Delete(object any) error {
	row, err := toRow(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.rows[row.key()]; there != nil && there.Namespace == row.Namespace {
		delete(s.rows, row.key())
	}
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *quotaStore) Replace(objects []any, _ string) error {
	rows := make(map[key]*Row, min(len(objects), rowsMax))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isCut = false
	for _, object := range objects {
		row, err := toRow(object)
		if err != nil {
			return err
		}
		s.put(rows, row)
	}
	s.rows = rows
	s.close()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (*quotaStore) Resync() error { return nil }

func (s *quotaStore) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.rows)
}

// each calls f with all rows.
func (s *quotaStore) each(f func(*Row)) (isCut bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, row := range s.rows {
		f(row)
	}
	return s.isCut
}

// requestStore has what open requests ask for.
type requestStore struct {
	mu sync.RWMutex
	// open has the rows that each open request asks for.
	open   map[types.NamespacedName][]key
	isRead chan struct{}
	close  func()
}

// openRequest has the fields of a request that the store needs.
type openRequest struct {
	name types.NamespacedName
	// asks are the rows that it asks for, without repetitions.
	asks   []key
	isOpen bool
}

var _ cache.TransformingStore = &requestStore{}

func newRequestStore() *requestStore {
	s := &requestStore{open: map[types.NamespacedName][]key{}, isRead: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.isRead) })
	return s
}

// Transformer implements [cache.TransformingStore].
func (*requestStore) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return toRequest(object) }
}

func toRequest(object any) (*openRequest, error) {
	switch object := object.(type) {
	case *openRequest:
		return object, nil
	case *quotav1alpha1.QuotaRequest:
		r := &openRequest{name: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}}
		r.asks, r.isOpen = asksOf(object)
		return r, nil
	default:
		return nil, fmt.Errorf("%T is no QuotaRequest", object)
	}
}

// Add implements [cache.ReflectorStore].
func (s *requestStore) Add(object any) error {
	request, err := toRequest(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.isOpen {
		s.open[request.name] = request.asks
	} else {
		delete(s.open, request.name)
	}
	return nil
}

// Update implements [cache.ReflectorStore].
func (s *requestStore) Update(object any) error { return s.Add(object) }

// Delete implements [cache.ReflectorStore].
func (s *requestStore) Delete(object any) error {
	request, err := toRequest(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, request.name)
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *requestStore) Replace(objects []any, _ string) error {
	open := map[types.NamespacedName][]key{}
	for _, object := range objects {
		request, err := toRequest(object)
		if err != nil {
			return err
		}
		if request.isOpen {
			open[request.name] = request.asks
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
	s.close()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (*requestStore) Resync() error { return nil }

// counts returns the number of open requests by row. A nil store has none.
func (s *requestStore) counts() map[key]int {
	counts := map[key]int{}
	if s == nil {
		return counts
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, asks := range s.open {
		for _, row := range asks {
			counts[row]++
		}
	}
	return counts
}
