package journal

import (
	"context"
	"iter"
	"runtime"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Sink stores entries. The caller uses it from one goroutine.
type Sink interface {
	// Append stores entries, and returns once a crash cannot lose them. After an error the sink may have some of them,
	// and the caller appends all of them again, possibly in another process. The entries of a consumer come in order.
	Append(ctx context.Context, entries []Entry) error
	// Probe writes something other than an entry, as far as the sink can. An error is that of an Append, before there
	// is an entry to lose.
	Probe(ctx context.Context) error
	// Close ends the sink. Everything from successful calls of Append stays stored.
	Close() error
}

// Query selects entries. An empty field selects all.
type Query struct {
	// Consumer selects the entries of one consumer.
	Consumer *quotav1alpha1.ConsumerRef
	// ResourceType selects the entries of one resource type. Opened entries are of every type.
	ResourceType string
	// Since and Until select entries from Since on and before Until.
	Since, Until time.Time
	// WorkersMax bounds the goroutines for reading and decoding, and selects nothing. Default: one for each processor.
	WorkersMax int
	// Damage receives the damaged lines, and selects nothing. Default: a damaged line ends the iteration with an error.
	Damage *Damage
}

// Workers returns how many goroutines may read and decode at the same time.
func (q *Query) Workers() int {
	if q.WorkersMax > 0 {
		return q.WorkersMax
	}
	return runtime.GOMAXPROCS(0)
}

// Matches reports whether the query selects an entry.
func (q *Query) Matches(e *Entry) bool {
	return (q.Consumer == nil || *q.Consumer == e.Consumer) &&
		(q.ResourceType == "" || q.ResourceType == e.ResourceType || e.Kind == Opened) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) &&
		(q.Until.IsZero() || e.Time.Before(q.Until))
}

// Source yields stored entries.
type Source interface {
	// Entries yields the selected entries, each once. Those of a consumer are in the order of their sequence; those of
	// different consumers are about in the order of time. An error ends the iteration.
	Entries(ctx context.Context, query Query) iter.Seq2[Entry, error]
}
