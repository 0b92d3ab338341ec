// Package access authenticates the callers of the webhook listener. Its handlers change ledgers and answer with
// figures of consumers, and they believe the user in a review. So a caller must prove its identity, as the API server
// or another replica, before a handler sees the request.
//
// The proof is the first segment of the path: a signature of the rest of the path, by a key in a Secret of all
// replicas. So a segment opens only the path it was made for, and nobody can make up the version of the policies in a
// path. The API server finds the paths in the webhook configurations. Only administrators may read these.
//
// An API server names the path in its error when a call fails, so a tenant may see a segment. Therefore segments have
// numbers. The leader publishes the next number regularly, when it begins to lead, and soon after a failed call (see
// [Exposures]). Every replica accepts a newer number at once, because it can verify it with the key. It stops accepting
// an older number a few seconds after the newer one appeared: API servers learn of it by a watch. Replicas call each
// other with segments of their own. Nobody publishes these.
//
// If the API server has a client certificate for webhooks, Guard accepts that instead of a published segment, and the
// published paths contain none. Replicas keep their segments. An API server in the same process calls without a
// connection, so it needs no proof: see [ForPeers].
//
// Package server imports it, and package cli for the options of client certificates.
package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// keyBytes is the length of a key: the size of a SHA-256 sum.
	keyBytes = sha256.Size
	// rotation is the interval between the leader's new segments if no call fails.
	rotation = 10 * time.Minute
	// grace is the time during which a replica accepts a segment after it saw a newer one, because API servers may learn
	// of the newer one later. It is also the least time between two new segments, because every one of them makes the API
	// servers load the webhooks again, and anyone can make calls fail.
	grace = 10 * time.Second
	// peer takes the place of the number in the segment of replicas.
	peer = "peer"
)

// Key is the secret behind all segments.
type Key []byte

// NewKey makes a key.
func NewKey() Key {
	key := make(Key, keyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// String hides the key from logs.
func (Key) String() string { return "[key]" }

// Authenticator admits authenticated callers. It is safe for concurrent use.
type Authenticator struct {
	key          Key
	certificates ClientCertificates
	// isForPeers means that the API server does not call through the guard.
	isForPeers bool
	now        func() time.Time

	mu sync.Mutex
	// newest is the highest number seen published, and oldest is the lowest number still accepted.
	newest, oldest int64
	// appeared is when newest replaced another number. It is zero if this replica does not know how old newest is.
	appeared time.Time
	// next is the number to publish, if it is above newest.
	next int64
	// exposed is the highest number that somebody may have read in an error.
	exposed int64
	// changed is closed at the next change of exposed or newest.
	changed chan struct{}
}

// NewAuthenticator returns an authenticator with a key. It admits the API server, by a segment or by its certificate,
// and other replicas.
func NewAuthenticator(key Key, certificates ClientCertificates) *Authenticator {
	return &Authenticator{key: key, certificates: certificates, now: time.Now, changed: make(chan struct{})}
}

// ForPeers returns an authenticator that admits only other replicas. The API server has another way to the handlers, so
// the published paths contain no secret.
func ForPeers(key Key) *Authenticator {
	a := NewAuthenticator(key, ClientCertificates{})
	a.isForPeers = true
	return a
}

// hasSecretPaths reports whether the published paths contain segments.
func (a *Authenticator) hasSecretPaths() bool {
	return !a.isForPeers && a.certificates.Authorities == nil
}

// PublishedPath returns a path in its form for the API server. It changes with each number.
func (a *Authenticator) PublishedPath(path string) string {
	if !a.hasSecretPaths() {
		return path
	}
	return "/" + a.segment(strconv.FormatInt(a.current(), 10), path) + path
}

// current returns the number to publish now.
func (a *Authenticator) current() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()

	// A number of unknown age may be old, and calls may have failed while this process did not run.
	age := a.now().Sub(a.appeared)
	if isDue := age >= rotation || a.exposed >= a.newest && age >= grace; isDue && a.next <= a.newest {
		// A clock behind the last leader's must not lead back to an older number.
		a.next = max(a.now().Unix(), a.newest+1)
	}
	return max(a.next, a.newest)
}

// PeerPath returns a path in its form for other replicas.
func (a *Authenticator) PeerPath(path string) string { return "/" + a.segment(peer, path) + path }

// Observe records a path as published now.
func (a *Authenticator) Observe(published string) {
	segment, path := split(published)
	number, ok := a.verify(segment, path)
	if !ok {
		return // published by an older version, or with another key
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if number <= a.newest {
		return
	}
	if isFirst := a.newest == 0 && a.next == 0; !isFirst {
		a.appeared = a.now()
	}
	a.newest = number
	a.notifyLocked()
	time.AfterFunc(grace, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.oldest = max(a.oldest, number)
	})
}

// Guard passes the requests of authenticated callers to next, without the segment in their path. It answers all other
// requests with 404 before it reads the body, on every path alike, so the answer does not reveal the existing paths.
func (a *Authenticator) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segment, path := split(r.URL.Path)
		switch number, isPublished := a.admits(segment, path); {
		case isPublished:
			http.StripPrefix("/"+segment, next).ServeHTTP(w, r)
			if r.Context().Err() != nil {
				a.Expose(number) // the API server did not wait for the answer
			}
		case hmac.Equal([]byte(segment), []byte(a.segment(peer, path))):
			http.StripPrefix("/"+segment, next).ServeHTTP(w, r)
		case a.certificates.accept(r.TLS):
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Connection", "close") // so the server does not read the body to reuse the connection
			http.NotFound(w, r)
		}
	})
}

// admits reports whether a segment proves an API server that calls a path, and returns the segment's number.
func (a *Authenticator) admits(segment, path string) (number int64, ok bool) {
	number, ok = a.verify(segment, path)
	if !ok || !a.hasSecretPaths() {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return number, number >= a.oldest
}

// verify returns the number of a segment, and whether the key made the segment for a path.
func (a *Authenticator) verify(segment, path string) (number int64, ok bool) {
	text, _, _ := strings.Cut(segment, "-")
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && hmac.Equal([]byte(segment), []byte(a.segment(text, path)))
}

// segment signs a path for a subject. The API server permits lower-case letters, digits and '-' in the path of a
// webhook.
func (a *Authenticator) segment(subject, path string) string {
	mac := hmac.New(sha256.New, a.key)
	_, _ = mac.Write([]byte(subject + path)) // it never fails; the path begins with a slash, and the subject has none
	return subject + "-" + hex.EncodeToString(mac.Sum(nil))
}

// split returns the first segment of a path, and the path behind it.
func split(path string) (segment, rest string) {
	segment, _, hasRest := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !hasRest {
		return segment, ""
	}
	return segment, path[len("/")+len(segment):]
}
