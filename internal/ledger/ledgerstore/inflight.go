package ledgerstore

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
)

// ReservationMargin is how long a reservation outlives its request: a write may still take effect in etcd after the API
// server gave up.
const ReservationMargin = 10 * time.Second

// defaultReservationLifetime is for the API server's default request timeout of one minute.
const defaultReservationLifetime = time.Minute + ReservationMargin

// ObjectKey is the key of a policy's reservation for an object. There is one for each pair: deciding the same object
// twice charges it once.
func ObjectKey(policy, objectUID string) string { return policy + "/" + objectUID }

// ClaimKey is the key of the reservation for the grant or the growth of a directly created claim as of a version. No
// policy has such a name: names contain no colon.
func ClaimKey(claimUID string, base ledger.Version) string {
	return "claim:" + claimUID + baseSeparator + strconv.FormatUint(uint64(base), 10)
}

// UpdateKey is the key of the reservation for an update of an object as of a version, by a policy without claims.
// There is one for all attempts: the API server accepts at most one of them.
func UpdateKey(policy, objectUID, base string) string {
	return ObjectKey(policy, objectUID) + baseSeparator + base
}

const baseSeparator = "@"

// SplitObjectKey undoes ObjectKey and UpdateKey. Both parts are empty for a directly created claim.
func SplitObjectKey(key string) (policy, objectUID string) {
	if policy, objectUID, ok := strings.Cut(key, "/"); ok {
		if i := strings.LastIndex(objectUID, baseSeparator); i >= 0 {
			objectUID = objectUID[:i]
		}
		return policy, objectUID
	}
	return "", ""
}

// ObjectUID returns the UID of the object of a reservation, or "" for a directly created claim.
func ObjectUID(key string) string {
	_, uid := SplitObjectKey(key)
	return uid
}

// InFlight is a reservation in flight, with its consumer.
type InFlight struct {
	Consumer quotav1alpha1.ConsumerRef
	ledger.Reservation
	// KnownSince is the earliest known time of its existence, on a monotonic clock. It is the time of this process's
	// write, or of the notice of the first version with the reservation.
	KnownSince time.Time
	// IsOwn is true if this process made it, or decided a later review of its request.
	IsOwn bool
	// IsUnrecorded is true while only the slice of this process covers it. It has no sequence yet, and is its own.
	IsUnrecorded bool
}

// ObjectUID returns the UID of the object of the reservation: of the claim itself, if somebody created it directly.
func (p *InFlight) ObjectUID() string {
	if uid := ObjectUID(p.Key); uid != "" || p.Awaits == nil {
		return uid
	}
	return p.Awaits.ID
}

// AwaitsClaim reports whether the reservation is that of a policy with claims of record, and ends with its claim.
func (p *InFlight) AwaitsClaim() bool {
	return p.Awaits != nil && p.Awaits.ID == p.Key
}

// inflight indexes the known reservations by object and consumer.
type inflight struct {
	mu         sync.RWMutex
	byObject   map[string][]InFlight
	byConsumer map[quotav1alpha1.ConsumerRef]map[string]InFlight
}

func newInflight() *inflight {
	return &inflight{
		byObject:   map[string][]InFlight{},
		byConsumer: map[quotav1alpha1.ConsumerRef]map[string]InFlight{},
	}
}

func (i *inflight) add(consumer quotav1alpha1.ConsumerRef, r ledger.Reservation, isOwn bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.addLocked(InFlight{Consumer: consumer, Reservation: r, KnownSince: time.Now(), IsOwn: isOwn})
}

func (i *inflight) addLocked(p InFlight) {
	keys := i.byConsumer[p.Consumer]
	if keys == nil {
		keys = map[string]InFlight{}
		i.byConsumer[p.Consumer] = keys
	}
	if before, known := keys[p.Key]; known {
		if before.Sequence == p.Sequence {
			return
		}
		if before.IsUnrecorded {
			p.KnownSince = before.KnownSince
		}
		i.removeLocked(before) // a raised reservation has a new sequence
		if keys = i.byConsumer[p.Consumer]; keys == nil {
			keys = map[string]InFlight{}
			i.byConsumer[p.Consumer] = keys
		}
	}
	keys[p.Key] = p
	if uid := p.ObjectUID(); uid != "" {
		i.byObject[uid] = append(i.byObject[uid], p)
	}
}

// addUnrecorded adds reservations to be admitted from the slice. It reports false, and adds none, if one of them is
// known.
func (i *inflight) addUnrecorded(consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.byConsumer[consumer]
	if slices.ContainsFunc(reservations, func(r ledger.Reservation) bool { return known[r.Key].Key != "" }) {
		return false
	}
	for _, r := range reservations {
		i.addLocked(InFlight{Consumer: consumer, Reservation: r, KnownSince: time.Now(), IsOwn: true, IsUnrecorded: true})
	}
	return true
}

// removeUnrecorded removes reservations that were not admitted after all.
func (i *inflight) removeUnrecorded(consumer quotav1alpha1.ConsumerRef, reservations []ledger.Reservation) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range reservations {
		if p, known := i.byConsumer[consumer][r.Key]; known && p.IsUnrecorded {
			i.removeLocked(p)
		}
	}
}

// isUnrecorded reports whether only the slice of this process covers a reservation.
func (i *inflight) isUnrecorded(consumer quotav1alpha1.ConsumerRef, key string) bool {
	p, known := i.get(consumer, key)
	return known && p.IsUnrecorded
}

// remove drops a reservation. Sequence 0 stands for any.
func (i *inflight) remove(consumer quotav1alpha1.ConsumerRef, key string, sequence int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p, known := i.byConsumer[consumer][key]
	if known && (sequence == 0 || p.Sequence == sequence) {
		i.removeLocked(p)
	}
}

// removeRecorded drops a reservation, unless the slice covers it: that one is a later attempt, or the same one whose
// record did not reach this process.
func (i *inflight) removeRecorded(consumer quotav1alpha1.ConsumerRef, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p, known := i.byConsumer[consumer][key]; known && !p.IsUnrecorded {
		i.removeLocked(p)
	}
}

func (i *inflight) removeLocked(p InFlight) {
	keys := i.byConsumer[p.Consumer]
	delete(keys, p.Key)
	if len(keys) == 0 {
		delete(i.byConsumer, p.Consumer)
	}
	i.removeFromObjectLocked(p)
}

func (i *inflight) removeFromObjectLocked(p InFlight) {
	uid := p.ObjectUID()
	rest := slices.DeleteFunc(i.byObject[uid], func(q InFlight) bool {
		return q.Consumer == p.Consumer && q.Key == p.Key
	})
	if len(rest) == 0 {
		delete(i.byObject, uid)
		return
	}
	i.byObject[uid] = rest
}

// unrecorded returns the reservations of a consumer admitted from the slice and not recorded yet.
func (i *inflight) unrecorded(consumer quotav1alpha1.ConsumerRef) []ledger.Reservation {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var all []ledger.Reservation
	for _, p := range i.byConsumer[consumer] {
		if p.IsUnrecorded {
			all = append(all, p.Reservation)
		}
	}
	return all
}

// has reports whether this process knows reservations of a consumer.
func (i *inflight) has(consumer quotav1alpha1.ConsumerRef) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(i.byConsumer[consumer]) > 0
}

// get returns a reservation.
func (i *inflight) get(consumer quotav1alpha1.ConsumerRef, key string) (InFlight, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	p, known := i.byConsumer[consumer][key]
	return p, known
}

// count returns the number of reservations of a consumer.
func (i *inflight) count(consumer quotav1alpha1.ConsumerRef) int {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(i.byConsumer[consumer])
}

// replace makes the reservations of the ledger, and the unrecorded ones, the known ones of a consumer. New ones get
// since as KnownSince. It returns the keys of the ended ones.
func (i *inflight) replace(consumer quotav1alpha1.ConsumerRef, l *ledger.Ledger, since time.Time) (ended []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := maps.Clone(i.byConsumer[consumer])
	for _, p := range before {
		i.removeLocked(p)
	}
	for r := range l.Reservations() {
		p := InFlight{Consumer: consumer, Reservation: r, KnownSince: since}
		if known, ok := before[r.Key]; ok && known.IsUnrecorded {
			i.addLocked(known) // its operation finds it in the ledger
			continue
		}
		if known, ok := before[r.Key]; ok && known.Sequence == r.Sequence {
			p.KnownSince, p.IsOwn = known.KnownSince, known.IsOwn
		}
		i.addLocked(p)
	}
	for key, p := range before {
		switch _, still := l.Reservation(key); {
		case still:
		case p.IsUnrecorded:
			i.addLocked(p)
		default:
			ended = append(ended, key)
		}
	}
	return ended
}

// ReservationsFor returns the reservations in flight for an object, or for a directly created claim.
func (s *Store) ReservationsFor(objectUID string) []InFlight {
	s.inflight.mu.RLock()
	defer s.inflight.mu.RUnlock()
	return slices.Clone(s.inflight.byObject[objectUID])
}

// ReservationOf returns the reservation of a consumer with the key, if this process knows of it.
func (s *Store) ReservationOf(consumer quotav1alpha1.ConsumerRef, key string) (InFlight, bool) {
	return s.inflight.get(consumer, key)
}

// ReservationsOf returns the reservations in flight of a consumer, as far as this process knows.
func (s *Store) ReservationsOf(consumer quotav1alpha1.ConsumerRef) []InFlight {
	s.inflight.mu.RLock()
	defer s.inflight.mu.RUnlock()
	return slices.Collect(maps.Values(s.inflight.byConsumer[consumer]))
}

// Reservations returns all reservations in flight, as far as this process knows.
func (s *Store) Reservations() []InFlight {
	s.inflight.mu.RLock()
	defer s.inflight.mu.RUnlock()
	var all []InFlight
	for _, keys := range s.inflight.byConsumer {
		for _, p := range keys {
			all = append(all, p)
		}
	}
	return all
}
