package inventory

import (
	"iter"
	"sort"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bursar/bursar/internal/ledger"
)

// changesMax is how many changes of demand a kind remembers. A consumer is usually observed again before so many.
const changesMax = 8192

// changelog has the latest changes of the demand of objects, oldest first.
type changelog struct {
	// since is the version from which on it has all changes.
	since   ledger.Version
	changes []change // a ring
	next    int      // the place of the next one, if the ring is full
}

// change is a change of the demand of an object.
type change struct {
	at              ledger.Version
	uid             types.UID
	namespace, name string
	before, after   *demand // nil without demand
	kind            ledger.ChangeKind
}

// reset forgets all changes up to a version.
func (l *changelog) reset(at ledger.Version) { *l = changelog{since: at} }

func (l *changelog) add(c change) {
	if len(l.changes) < changesMax {
		l.changes = append(l.changes, c)
		return
	}
	l.since = l.changes[l.next].at
	l.changes[l.next] = c
	l.next = (l.next + 1) % changesMax
}

// after yields the changes after a version, oldest first. It reports false if it no longer has all of them.
func (l *changelog) after(version ledger.Version) (changes iter.Seq[*change], hasAll bool) {
	known := sort.Search(len(l.changes), func(i int) bool { return l.change(i).at > version })
	return func(yield func(*change) bool) {
		for i := known; i < len(l.changes); i++ {
			if !yield(l.change(i)) {
				return
			}
		}
	}, version >= l.since
}

// change returns the change in a place, from the oldest on. Versions only rise from there.
func (l *changelog) change(i int) *change { return &l.changes[(l.next+i)%len(l.changes)] }
