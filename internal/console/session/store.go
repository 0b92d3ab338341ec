package session

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

const (
	// lifetimeMax is how long a session lasts at most, and idleMax how long without a request.
	lifetimeMax, idleMax = 12 * time.Hour, time.Hour
	// sessionsMax bounds the sessions of a console. Beyond it, the one with the longest idle time ends.
	sessionsMax = 500
	// sessionsOfOne bounds the sessions of one person. sessionsOfNamespace bounds those of all ServiceAccounts of a
	// namespace, because one person can make many of these. So nobody ends the sessions of others.
	sessionsOfOne, sessionsOfNamespace = 10, 100
)

// Store has the sessions of a console, in memory: they end with the process.
type Store struct {
	// ctx ends all sessions.
	ctx context.Context
	// cookie is the name of the cookie with a session's identifier.
	cookie string
	// isSecure restricts the cookie to TLS.
	isSecure bool

	mu       sync.Mutex
	sessions map[string]*Session
}

// NewStore returns a store without sessions. The name distinguishes the consoles of one host, because cookies do not
// belong to a port. Without isSecure browsers send the cookie without TLS as well; this is for loopback only. All
// sessions end with ctx.
func NewStore(ctx context.Context, name string, isSecure bool) *Store {
	cookie := "bursar-console" + name
	if isSecure {
		// Browsers accept a cookie of this prefix only with TLS, from this host, for all paths.
		cookie = "__Host-" + cookie
	}
	return &Store{ctx: ctx, cookie: cookie, isSecure: isSecure, sessions: map[string]*Session{}}
}

// Begin authenticates a person, and gives the browser a cookie of a new session. It ends the browser's former session,
// if there is one: without its cookie, nobody could log out of it.
func (s *Store) Begin(ctx context.Context, w http.ResponseWriter, c Credentials, former *Session) (*Session, error) {
	begun, err := newSession(ctx, s.ctx, c)
	if err != nil {
		return nil, err
	}
	if former != nil {
		former.end()
	}
	id := newSecret()
	lifetime := lifetimeMax
	if !c.Expires.IsZero() {
		lifetime = min(lifetime, time.Until(c.Expires))
	}
	timer := time.AfterFunc(lifetime, begun.end)
	context.AfterFunc(begun.ctx, func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, id)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(begun.User.Username)
	s.sessions[id] = begun
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: id, Path: "/", HttpOnly: true, Secure: s.isSecure, SameSite: http.SameSiteStrictMode})
	return begun, nil
}

// makeRoom ends idle sessions. If the person, the namespace of a ServiceAccount, or everybody has too many, it ends the
// one with the longest idle time. The caller holds the lock; an ended session leaves the map once the lock is free.
func (s *Store) makeRoom(username string) {
	var ids []string // the longest idle first
	for id := range s.sessions {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return s.sessions[a].usedAt().Compare(s.sessions[b].usedAt()) })
	owner, most := ownerOf(username)
	own := 0
	for _, id := range ids {
		if other, _ := ownerOf(s.sessions[id].User.Username); other == owner {
			own++
		}
	}
	for _, id := range ids {
		session := s.sessions[id]
		other, _ := ownerOf(session.User.Username)
		if time.Since(session.usedAt()) <= idleMax && (own < most || other != owner) && len(s.sessions) < sessionsMax {
			continue
		}
		delete(s.sessions, id)
		session.end()
		if other == owner {
			own--
		}
	}
}

// ownerOf returns the owner of a user's sessions, and their maximum number. The owner is a person, or all
// ServiceAccounts of a namespace together.
func ownerOf(username string) (owner string, most int) {
	if namespace, _, err := serviceaccount.SplitUsername(username); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace), sessionsOfNamespace
	}
	return username, sessionsOfOne
}

// Owner names the person of a session, or all ServiceAccounts of a namespace together: one person can make many of
// these. Bounds for a person count by it.
func (s *Session) Owner() string {
	owner, _ := ownerOf(s.User.Username)
	return owner
}

// Of returns the session of a request, or nil without a live one.
func (s *Store) Of(r *http.Request) *Session {
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	session := s.sessions[cookie.Value]
	s.mu.Unlock()
	if session == nil || session.ctx.Err() != nil {
		return nil
	}
	if time.Since(session.usedAt()) > idleMax {
		session.end()
		return nil
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	session.used = time.Now()
	return session
}

// Referred returns the session with a reference, or nil without a live one.
func (s *Store) Referred(reference string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		if isEqual(reference, session.Reference) {
			return session
		}
	}
	return nil
}

// End ends a session and removes the browser's cookie.
func (s *Store) End(w http.ResponseWriter, ended *Session) {
	ended.end()
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: s.isSecure, SameSite: http.SameSiteStrictMode})
}

func (s *Session) usedAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// newSecret returns 128 random bits as text.
func newSecret() string { return rand.Text() }

var errOneTime = errors.New("this one-time token is unknown or was used: run the command again for another")

// OneTime is a secret that begins one session.
type OneTime struct {
	secret string
	isUsed atomic.Bool
}

// NewOneTime returns an unused secret.
func NewOneTime() *OneTime { return &OneTime{secret: newSecret()} }

// Secret returns the text of the secret.
func (o *OneTime) Secret() string { return o.secret }

// Use returns an error unless the text is the secret, and this is its first use.
func (o *OneTime) Use(text string) error {
	if !isEqual(text, o.secret) || o.isUsed.Swap(true) {
		return errOneTime
	}
	return nil
}

// Restore makes the secret usable again, after a use that began no session.
func (o *OneTime) Restore() { o.isUsed.Store(false) }

// isEqual compares secrets in a time independent of their content.
func isEqual(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// IsOwnForm reports whether a text is the secret of the session's forms.
func (s *Session) IsOwnForm(text string) bool { return isEqual(text, s.CSRF) }
