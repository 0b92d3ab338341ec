// Package session has the sessions of the console: their people, the rights of these, and the end of each session. A
// session holds the person's own credentials, so that the API server decides about each read and write. Only the
// console imports it.
package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// requestsPerSecond and requestsBurst bound the requests of one session to the API server.
	requestsPerSecond, requestsBurst = 50, 100
	// mayFor is the lifetime of an answer about a person's rights.
	mayFor = 30 * time.Second
	// requestsMax and streamsMax bound the open pages and streams of one session.
	requestsMax, streamsMax = 16, 8
)

// ErrTooMany means that a session has the maximum number of open requests or streams.
var ErrTooMany = errors.New("too many open requests of this session")

// Session is the session of a logged-in person. Its methods are safe for concurrent use.
type Session struct {
	// Config reaches the API server with the person's credentials.
	Config *rest.Config
	// API reads and writes as the person.
	API client.WithWatch
	// User is the person's identity, by the API server's answer.
	User authenticationv1.UserInfo
	// Namespace is the namespace of the person's kubeconfig or, for a ServiceAccount, its own. It may be empty.
	Namespace string
	// Reference is a secret that names the session to the console where the browser sends no cookie. It gives no rights.
	Reference string
	// CSRF is a secret that each form of the session sends back.
	CSRF string

	// ctx ends with the session.
	ctx              context.Context
	end              context.CancelFunc
	requests, stream chan struct{}

	mu     sync.Mutex
	notice string
	rights map[authorizationv1.ResourceAttributes]right
	kept   map[any]any
	used   time.Time
}

// right is an answer of the API server about a right.
type right struct {
	isGranted bool
	at        time.Time
}

// Credentials reach the API server as a person.
type Credentials struct {
	// Config has the person's credentials.
	Config *rest.Config
	// Namespace is the namespace of the person's kubeconfig, or empty.
	Namespace string
	// Expires is the end of the credentials, or zero if it is unknown.
	Expires time.Time
}

// newSession authenticates a person and returns the session. The session ends with all. The error of the API server for
// unknown credentials is Unauthorized.
func newSession(ctx, all context.Context, c Credentials) (*Session, error) {
	config := rest.CopyConfig(c.Config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestsBurst) // one for all clients of the session
	config.WarningHandler = rest.NoWarnings{}
	config.ContentType, config.AcceptContentTypes = "", "" // custom resources have no protobuf, which loopback configurations prefer
	types, err := knownTypes()
	if err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	s := &Session{
		Config: config, API: api, Namespace: c.Namespace, Reference: newSecret(), CSRF: newSecret(), used: time.Now(),
		rights: map[authorizationv1.ResourceAttributes]right{}, kept: map[any]any{},
		requests: make(chan struct{}, requestsMax), stream: make(chan struct{}, streamsMax),
	}
	if err := s.Check(ctx); err != nil {
		return nil, err
	}
	if namespace, _, err := serviceaccount.SplitUsername(s.User.Username); err == nil && s.Namespace == "" {
		s.Namespace = namespace
	}
	s.ctx, s.end = context.WithCancel(all)
	return s, nil
}

// knownTypes are the types of all sessions.
var knownTypes = sync.OnceValues(func() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	return types, errors.Join(scheme.AddToScheme(types), quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types))
})

// Check asks the API server who the person is. An Unauthorized error means that the credentials have ended.
func (s *Session) Check(ctx context.Context) error {
	review := &authenticationv1.SelfSubjectReview{}
	if err := s.API.Create(ctx, review); err != nil {
		return fmt.Errorf("ask the API server who you are: %w", err)
	}
	if review.Status.UserInfo.Username == "system:anonymous" {
		return apierrors.NewUnauthorized("the credentials belong to no user")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.User.Username == "" {
		s.User = review.Status.UserInfo
	}
	if s.User.Username != review.Status.UserInfo.Username {
		return apierrors.NewUnauthorized("the credentials belong to another user now")
	}
	return nil
}

// Context returns a context that ends with the session, for values that the session keeps.
func (s *Session) Context() context.Context { return s.ctx }

// May reports whether the person has a right. The API server's answer is at most half a minute old. Without an answer,
// May returns the last known one, or false.
func (s *Session) May(ctx context.Context, wanted authorizationv1.ResourceAttributes) bool {
	s.mu.Lock()
	known, isKnown := s.rights[wanted]
	s.mu.Unlock()
	if isKnown && time.Since(known.at) < mayFor {
		return known.isGranted
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &wanted}}
	if err := s.API.Create(ctx, review); err != nil && !apierrors.IsForbidden(err) { // who may not ask may not do it
		if IsEnded(err) {
			s.end() // the next request leads to the login
		}
		return known.isGranted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rights) > rightsMax {
		clear(s.rights)
	}
	s.rights[wanted] = right{isGranted: review.Status.Allowed, at: time.Now()}
	return review.Status.Allowed
}

// rightsMax bounds the answers about rights in a session.
const rightsMax = 500

// SetNotice leaves a sentence for the next page.
func (s *Session) SetNotice(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice = text
}

// TakeNotice returns the sentence of SetNotice, once.
func (s *Session) TakeNotice() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.notice
	s.notice = ""
	return text
}

// Kept returns the session's value under a key, and makes it first if there is none. Everything that make starts must
// end with the session's context.
func Kept[T any](s *Session, key any, make func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept, isKept := s.kept[key].(T); isKept {
		return kept
	}
	made := make()
	s.kept[key] = made
	return made
}

// Enter takes one of the session's places for requests. It returns [ErrTooMany] if no place is free.
func (s *Session) Enter() (leave func(), err error) { return take(s.requests) }

// EnterStream takes one of the session's places for streams. It returns [ErrTooMany] if no place is free.
func (s *Session) EnterStream() (leave func(), err error) { return take(s.stream) }

func take(places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, ErrTooMany
	}
}

// IsEnded reports whether an error of the API server means that the credentials no longer hold.
func IsEnded(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusUnauthorized
}

// Namespaces lists all namespaces, or none if the person may not list them or there are too many to choose from.
func (s *Session) Namespaces(ctx context.Context) ([]string, error) {
	var list corev1.NamespaceList
	err := s.API.List(ctx, &list, client.Limit(namespacesMax))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the namespaces: %w", err)
	}
	if list.Continue != "" {
		return nil, nil // people enter the name
	}
	names := make([]string, 0, len(list.Items))
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names, nil
}

// namespacesMax bounds the namespaces in a list to choose from.
const namespacesMax = 1000
