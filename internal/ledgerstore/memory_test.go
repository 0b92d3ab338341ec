package ledgerstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

var errInjected = errors.New("injected")

// memory is [Storage] of one consumer in memory. It is linearizable, keeps every revision, and
// fails as it is told to.
type memory struct {
	mu        sync.Mutex
	revisions []ledger.Books // the version is the number of revisions
	reads     int
	// beforeWrite and afterWrite may fail a write before or after it took effect.
	beforeWrite, afterWrite func() error
}

func (m *memory) Read(context.Context, quotav1alpha1.ConsumerRef) (ledger.Books, Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if len(m.revisions) == 0 {
		return ledger.Books{}, "", nil
	}
	return m.revisions[len(m.revisions)-1], m.versionLocked(), nil
}

func (m *memory) Write(_ context.Context, _ quotav1alpha1.ConsumerRef, books ledger.Books, expected Version) (Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.beforeWrite != nil {
		if err := m.beforeWrite(); err != nil {
			return "", err
		}
	}
	if m.versionLocked() != expected {
		return "", ErrConflict
	}
	m.revisions = append(m.revisions, books)
	if m.afterWrite != nil {
		if err := m.afterWrite(); err != nil {
			return "", err
		}
	}
	return m.versionLocked(), nil
}

func (m *memory) CurrentVersion(context.Context, quotav1alpha1.ConsumerRef) (Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versionLocked(), nil
}

func (m *memory) versionLocked() Version {
	if len(m.revisions) == 0 {
		return ""
	}
	return Version(strconv.Itoa(len(m.revisions)))
}

func (m *memory) stored() ledger.Books {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revisions[len(m.revisions)-1]
}

func (m *memory) writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.revisions)
}

// failNow makes the next write fail, before or after it took effect.
func (m *memory) failNow(after bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	once := func() error {
		m.beforeWrite, m.afterWrite = nil, nil
		return err
	}
	if after {
		m.afterWrite = once
	} else {
		m.beforeWrite = once
	}
}

// failOften makes writes fail by chance: not carried out, or carried out with no answer.
func (m *memory) failOften(seed uint64) {
	random := rand.New(rand.NewPCG(seed, seed))
	chance := func() error {
		if random.IntN(8) == 0 {
			return errInjected
		}
		return nil
	}
	m.beforeWrite, m.afterWrite = chance, chance
}
