// Package overapi reads journals over the API server, by QuotaHistories. It serves commands of users without access
// to the place of a journal.
package overapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/journal"
)

const (
	// ledgersPage is how many ledgers one list reads. A ledger may have more than a megabyte.
	ledgersPage = 50
	// namePrefix begins the names of QuotaHistories. Nobody sees these names.
	namePrefix = "history-"
)

// Source reads journals with the rights of its client's user. Times are in microseconds. Users with a right to
// figures only get entries without actors, and objects only where they may see them.
//
// A query without a consumer reads the journals of all consumers with a ledger, one after the other. If the user may
// not list ledgers, it reads the journals of the consumers whose quota the namespace shows.
type Source struct {
	// API has the types of quota.miloapis.com in its scheme.
	API client.Client
	// Namespace is a namespace in which the user may create QuotaHistories.
	Namespace string
	// PageSize is the number of entries to ask for at once. It is for callers who read only the first ones. 0: as many
	// as possible.
	PageSize int32
}

// Entries implements [journal.Source].
func (s *Source) Entries(ctx context.Context, query journal.Query) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		query.Since, query.Until = query.Since.Truncate(time.Microsecond), query.Until.Truncate(time.Microsecond)
		consumers := []quotav1alpha1.ConsumerRef{}
		if query.Consumer != nil {
			consumers = append(consumers, *query.Consumer)
		} else {
			var err error
			if consumers, err = s.Consumers(ctx); err != nil {
				yield(journal.Entry{}, err)
				return
			}
		}
		for _, consumer := range consumers {
			query.Consumer = &consumer
			if goesOn, err := s.read(ctx, query, yield); err != nil {
				yield(journal.Entry{}, err)
				return
			} else if !goesOn {
				return
			}
		}
	}
}

// PageMax is how many entries one question to the API server answers at most.
func (s *Source) PageMax() int { return quotav1alpha1.HistoryLimitMax }

// Consumers returns the consumers with a ledger or, if the user may not list ledgers, those whose quota the namespace
// shows.
func (s *Source) Consumers(ctx context.Context) ([]quotav1alpha1.ConsumerRef, error) {
	var consumers []quotav1alpha1.ConsumerRef
	for next := ""; ; {
		var page quotav1alpha1.ConsumerLedgerList // new for each page: decoding keeps old values of absent fields
		err := s.API.List(ctx, &page, client.Limit(ledgersPage), client.Continue(next))
		switch {
		case apierrors.IsForbidden(err):
			return s.consumersShown(ctx, err)
		case isUnserved(err):
			return nil, unserved(err)
		case err != nil:
			return nil, fmt.Errorf("list the consumers that have a journal: %w", err)
		}
		for i := range page.Items {
			consumers = append(consumers, page.Items[i].Spec.ConsumerRef)
		}
		if next = page.Continue; next == "" {
			return consumers, nil
		}
	}
}

// consumersShown returns the consumers whose quota the namespace shows. Without any it returns an error. The error
// wraps forbidden, the reason why the user could not list ledgers.
func (s *Source) consumersShown(ctx context.Context, forbidden error) ([]quotav1alpha1.ConsumerRef, error) {
	var grants quotav1alpha1.EffectiveResourceGrantList
	if err := s.API.List(ctx, &grants, client.InNamespace(s.Namespace)); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the consumers with quota in namespace %s: %w", s.Namespace, err)
	}
	shown := map[quotav1alpha1.ConsumerRef]bool{}
	for i := range grants.Items {
		shown[grants.Items[i].Spec.ConsumerRef] = true
	}
	if len(shown) == 0 {
		return nil, fmt.Errorf("you may not list the consumers that have a journal, and see no quota in namespace %s: name the namespace of your quota with --namespace, or have the role bursar-journal-reader bound to you: %w", s.Namespace, forbidden)
	}
	return slices.SortedFunc(maps.Keys(shown), func(a, b quotav1alpha1.ConsumerRef) int {
		return strings.Compare(message.Consumer(a), message.Consumer(b))
	}), nil
}

// read yields the entries of the query's consumer, page by page. It reports whether yield wants more.
func (s *Source) read(ctx context.Context, query journal.Query, yield func(journal.Entry, error) bool) (bool, error) {
	var last int64
	for next := ""; ; {
		status, err := s.page(ctx, query, next)
		if err != nil {
			return false, err
		}
		before := last
		for i := range status.Entries {
			entry, err := journal.FromAPI(*query.Consumer, &status.Entries[i])
			if err != nil {
				return false, err
			}
			if entry.Sequence <= last {
				return false, fmt.Errorf("read the journal of %s: entry %d comes after entry %d", message.Consumer(*query.Consumer), entry.Sequence, last)
			}
			last = entry.Sequence
			if query.Matches(&entry) && !yield(entry, nil) {
				return false, nil
			}
		}
		if next = status.Continue; next == "" {
			return true, nil
		}
		if last == before {
			return false, fmt.Errorf("read the journal of %s: the API server sends pages without entries", message.Consumer(*query.Consumer))
		}
	}
}

// page reads one page.
func (s *Source) page(ctx context.Context, query journal.Query, next string) (*quotav1alpha1.QuotaHistoryStatus, error) {
	history := &quotav1alpha1.QuotaHistory{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix, Namespace: s.Namespace},
		Spec: quotav1alpha1.QuotaHistorySpec{
			ConsumerRef: *query.Consumer, ResourceType: query.ResourceType, Limit: cmp.Or(s.PageSize, quotav1alpha1.HistoryLimitMax), Continue: next,
		},
	}
	// The API has whole seconds. So it answers with a little more, and read leaves out the excess. So its answer has a
	// little more, and read leaves out the excess.
	if !query.Since.IsZero() {
		history.Spec.Since = new(metav1.NewTime(query.Since.Truncate(time.Second)))
	}
	if !query.Until.IsZero() {
		history.Spec.Until = new(metav1.NewTime(query.Until.Add(time.Second - 1).Truncate(time.Second)))
	}
	err := s.API.Create(ctx, history, client.DryRunAll)
	switch {
	case apierrors.HasStatusCause(err, quotav1alpha1.CauseNoEntries):
		return &quotav1alpha1.QuotaHistoryStatus{}, nil // the caller knows whether it reads others
	case err != nil:
		return nil, s.failure(*query.Consumer, err)
	case history.Status == nil:
		return nil, errors.New("the API server does not answer QuotaHistories: check with bursar status whether Bursar is ready")
	}
	return history.Status, nil
}

// failure returns the reason of a failed page, as one sentence.
func (s *Source) failure(consumer quotav1alpha1.ConsumerRef, err error) error {
	status := apierrors.APIStatus(nil)
	switch _, said, isByWebhook := strings.Cut(err.Error(), " denied the request: "); {
	case isByWebhook && apierrors.IsTimeout(err):
		return &answer{text: said + ", with --since and --until, or read its storage with --journal", err: err}
	case isByWebhook:
		return &answer{text: said, err: err}
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not create QuotaHistories in namespace %s: name another with --namespace, or have the role bursar-journal-reader bound to you: %w", s.Namespace, err)
	case isUnserved(err) && !(errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"):
		return unserved(err)
	default:
		return fmt.Errorf("read the journal of %s: %w", message.Consumer(consumer), err)
	}
}

// isUnserved reports whether the API server does not serve the kind.
func isUnserved(err error) bool {
	return apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err)
}

func unserved(err error) error {
	return fmt.Errorf("the API server serves no journals: install this version of Bursar there, or choose another with --kubeconfig or --context: %w", err)
}

// answer is an answer of Bursar, without the name of the answering webhook.
type answer struct {
	text string
	err  error
}

func (a *answer) Error() string { return a.text }

func (a *answer) Unwrap() error { return a.err }
