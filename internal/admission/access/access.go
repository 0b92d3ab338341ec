// Package access decides who may call the webhook listener. Its handlers change ledgers and answer with figures of
// consumers, so a caller proves that it is the API server or another replica before a handler sees the request.
//
// The proof is the first segment of the path. Replicas make it from a key that they share in a Secret, and the API
// server learns it from the webhook configurations, which administrators alone may read.
//
// An API server names the path in its error when a call fails, so a tenant may come to see one. Hence segments are
// numbered, and the leader publishes the next number regularly. Every replica accepts a newer number at once, because
// it can check it by the key, and stops accepting an older one once it has seen a newer one published for a while. So
// neither a watch that lags nor a leader that is away makes a call fail. Replicas call each other by a segment of
// their own, which is never published.
//
// Where the API server has a client certificate for webhooks, that certificate is accepted as well, and the published
// paths carry no segment.
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
	// keyBytes is the length of a key, that of what SHA-256 yields.
	keyBytes = sha256.Size
	// rotation is how often the leader publishes a new segment.
	rotation = 10 * time.Minute
	// grace is how long a segment is accepted after a newer one was seen: API servers may learn of it later.
	grace = time.Minute
	// peer stands for a number in the segment of replicas.
	peer = "peer"
)

// Key is what segments are made from.
type Key []byte

// NewKey makes a key.
func NewKey() Key {
	key := make(Key, keyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

// String hides the key from logs.
func (Key) String() string { return "[key]" }

// Gate knows which callers are let in. It is safe for concurrent use.
type Gate struct {
	key          Key
	certificates ClientCertificates
	grace        time.Duration
	now          func() time.Time

	mu sync.Mutex
	// newest is the highest number that was seen published, and oldest the lowest that is accepted.
	newest, oldest int64
}

// NewGate makes a gate.
func NewGate(key Key, certificates ClientCertificates) *Gate {
	return &Gate{key: key, certificates: certificates, grace: grace, now: time.Now}
}

// PublishedPath is where the API server reaches a path of the listener. It changes with each rotation.
func (g *Gate) PublishedPath(path string) string {
	if g.certificates.Authorities != nil {
		return path
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A clock that is behind that of the last leader does not go back to an older number.
	number := max(g.now().Unix()/int64(rotation.Seconds()), g.newest)
	return "/" + g.segment(strconv.FormatInt(number, 10)) + path
}

// PeerPath is where other replicas reach a path of the listener.
func (g *Gate) PeerPath(path string) string { return "/" + g.segment(peer) + path }

// Observe notes a path that is published now.
func (g *Gate) Observe(path string) {
	number, ok := g.verify(firstSegment(path))
	if !ok {
		return // it was published by an older version, or with another key
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if number <= g.newest {
		return
	}
	g.newest = number
	time.AfterFunc(g.grace, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.oldest = max(g.oldest, number)
	})
}

// Guard passes on to next the requests of callers that prove themselves, without the segment in their path. It
// answers everybody else with 404 before the body is read, whatever the path, so that nobody learns which paths there
// are.
func (g *Gate) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch segment := firstSegment(r.URL.Path); {
		case g.admits(segment):
			http.StripPrefix("/"+segment, next).ServeHTTP(w, r)
		case g.certificates.accept(r.TLS):
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Connection", "close") // so that the server does not read the body to reuse the connection
			http.NotFound(w, r)
		}
	})
}

func (g *Gate) admits(segment string) bool {
	if hmac.Equal([]byte(segment), []byte(g.segment(peer))) {
		return true
	}
	number, ok := g.verify(segment)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return number >= g.oldest
}

// verify returns the number of a segment, and whether the segment was made with the key.
func (g *Gate) verify(segment string) (number int64, ok bool) {
	text, _, _ := strings.Cut(segment, "-")
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && hmac.Equal([]byte(segment), []byte(g.segment(text)))
}

// segment signs a subject. The API server permits lower-case letters, digits and '-' in the path of a webhook.
func (g *Gate) segment(subject string) string {
	mac := hmac.New(sha256.New, g.key)
	_, _ = mac.Write([]byte(subject)) // it never fails
	return subject + "-" + hex.EncodeToString(mac.Sum(nil))
}

func firstSegment(path string) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return segment
}
