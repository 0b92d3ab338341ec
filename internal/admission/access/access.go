// Package access authenticates the callers of the webhook listener. Its handlers change ledgers and answer with
// figures of consumers. So a caller must prove its identity, as the API server or another replica, before a handler
// sees the request.
//
// The proof is the first segment of the path. Replicas derive it from a key in a Secret. The API server finds it in
// the webhook configurations. Only administrators may read these.
//
// An API server names the path in its error when a call fails, so a tenant may see a segment. Therefore segments have
// numbers, and the leader publishes the next number regularly. Every replica accepts a newer number at once, because
// it can verify it with the key. It stops accepting an older number some time after the newer one appeared. As a
// result, neither a lagging watch nor an absent leader makes a call fail. Replicas call each other with a segment of
// their own. Nobody publishes it.
//
// If the API server has a client certificate for webhooks, Guard accepts that as well, and the published paths
// contain no segment.
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
	// rotation is the interval between the leader's new segments.
	rotation = 10 * time.Minute
	// grace is the time during which a replica accepts a segment after it saw a newer one, because API servers may learn
	// of the newer one later.
	grace = time.Minute
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
	grace        time.Duration
	now          func() time.Time

	mu sync.Mutex
	// newest is the highest number seen published, and oldest is the lowest number still accepted.
	newest, oldest int64
}

// NewAuthenticator returns an authenticator with a key.
func NewAuthenticator(key Key, certificates ClientCertificates) *Authenticator {
	return &Authenticator{key: key, certificates: certificates, grace: grace, now: time.Now}
}

// PublishedPath returns the path of a handler for the API server. It changes with each rotation.
func (g *Authenticator) PublishedPath(path string) string {
	if g.certificates.Authorities != nil {
		return path
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A clock behind the last leader's must not lead back to an older number.
	number := max(g.now().Unix()/int64(rotation.Seconds()), g.newest)
	return "/" + g.segment(strconv.FormatInt(number, 10)) + path
}

// PeerPath returns the path of a handler for other replicas.
func (g *Authenticator) PeerPath(path string) string { return "/" + g.segment(peer) + path }

// Observe records a path as published now.
func (g *Authenticator) Observe(path string) {
	number, ok := g.verify(firstSegment(path))
	if !ok {
		return // published by an older version, or with another key
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

// Guard passes the requests of authenticated callers to next, without the segment in their path. It answers all other
// requests with 404 before it reads the body, on every path alike, so the answer does not reveal the existing paths.
func (g *Authenticator) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch segment := firstSegment(r.URL.Path); {
		case g.admits(segment):
			http.StripPrefix("/"+segment, next).ServeHTTP(w, r)
		case g.certificates.accept(r.TLS):
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Connection", "close") // so the server does not read the body to reuse the connection
			http.NotFound(w, r)
		}
	})
}

func (g *Authenticator) admits(segment string) bool {
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

// verify returns the number of a segment, and whether the key made the segment.
func (g *Authenticator) verify(segment string) (number int64, ok bool) {
	text, _, _ := strings.Cut(segment, "-")
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && hmac.Equal([]byte(segment), []byte(g.segment(text)))
}

// segment signs a subject. The API server permits lower-case letters, digits and '-' in the path of a webhook.
func (g *Authenticator) segment(subject string) string {
	mac := hmac.New(sha256.New, g.key)
	_, _ = mac.Write([]byte(subject)) // it never fails
	return subject + "-" + hex.EncodeToString(mac.Sum(nil))
}

func firstSegment(path string) string {
	segment, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return segment
}
