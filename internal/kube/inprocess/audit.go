package inprocess

import (
	"sync/atomic"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// Audit passes the audit events of an API server in this process to a sink of this process. The zero value drops them.
// It is safe for concurrent use.
type Audit struct {
	sink atomic.Pointer[audit.Sink]
}

var _ audit.Backend = &Audit{}

// Handle has sink receive the events from now on.
func (a *Audit) Handle(sink audit.Sink) { a.sink.Store(&sink) }

// ProcessEvents implements [audit.Sink].
func (a *Audit) ProcessEvents(events ...*auditinternal.Event) bool {
	sink := a.sink.Load()
	return sink == nil || (*sink).ProcessEvents(events...)
}

// Run implements [audit.Backend].
func (a *Audit) Run(<-chan struct{}) error { return nil }

// Shutdown implements [audit.Backend].
func (a *Audit) Shutdown() {}

// String implements [audit.Backend].
func (a *Audit) String() string { return "in-process" }
