// Package certs keeps the certificate by which the webhooks are served, in a Secret that all replicas
// share, and replaces it without a call that fails.
//
// A certificate of the same authority is served at once. One of another authority waits until the API
// server has had the time to learn of that authority. Authorities that replicas may be serving by are published
// together, so that whichever certificate one serves can be checked; those that the Secret does not hold are left out
// later.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// publishTime is how long it takes at most until the API servers know of an authority that was
	// published.
	publishTime = time.Minute
	// retireTime is how long authorities that the Secret does not hold stay published, because replicas may still be
	// serving by them. It is a multiple of publishTime: not all replicas see what becomes of the Secret at once.
	retireTime = 10 * publishTime
	// checkInterval is how often it is checked whether the certificate has to be renewed, and retryTime
	// how soon again if that failed.
	checkInterval = 12 * time.Hour
	retryTime     = 5 * time.Second
)

// Published are the authorities by which API servers are told to check the webhooks.
type Published interface {
	// Authorities returns bundles of them, in PEM, or why it cannot tell. A replica that starts has to know of those that
	// others may still be serving by: it may be the next one to publish.
	Authorities(ctx context.Context) ([][]byte, error)
}

// Manager keeps a certificate. Its fields are set once; then Run it.
type Manager struct {
	Client kubernetes.Interface
	// Namespace and Name are those of the Secret.
	Namespace, Name string
	// DNSNames are what the webhooks are called by. There is at least one.
	DNSNames []string
	// Renews tells that the Secret is Bursar's own: it is created, and renewed in time. Otherwise
	// somebody else does so, such as cert-manager.
	Renews bool
	// Published are the authorities that are published now.
	Published Published
	Log       logr.Logger

	// onPublish is called after other authorities are to be published.
	onPublish func()

	mu     sync.RWMutex
	served *pair
	// latest is what the Secret holds, which is served once its authority is known.
	latest *pair
	bundle []byte
}

// OnPublish has f called after other authorities are to be published. It is called once, before Run.
func (m *Manager) OnPublish(f func()) { m.onPublish = f }

// GetCertificate has the form that [tls.Config] wants.
func (m *Manager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.served == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return m.served.certificate, nil
}

// Bundle returns the authorities that are to be published, in PEM, or nil if none is known yet.
func (m *Manager) Bundle() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.bundle
}

// VerifiedBy reports whether one of some authorities, in PEM, is that of the certificate that is served.
func (m *Manager) VerifiedBy(authorities []byte) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.served != nil && m.served.verifiedBy(authorities, time.Now())
}

// Ready tells why there is nothing to serve, or returns nil.
func (m *Manager) Ready() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.served == nil:
		return fmt.Errorf("the Secret %s/%s holds no certificate for the webhooks yet", m.Namespace, m.Name)
	case !m.served.isValid(time.Now()):
		return fmt.Errorf("the certificate for the webhooks in Secret %s/%s is in force from %s to %s alone",
			m.Namespace, m.Name, m.served.certificate.Leaf.NotBefore, m.served.certificate.Leaf.NotAfter)
	default:
		return nil
	}
}

// Run follows the Secret, and renews it if it is Bursar's own, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(m.Client, 0, informers.WithNamespace(m.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, m.Name).String()
		}))
	secrets := factory.Core().V1().Secrets().Informer()
	gone := make(chan struct{}, 1)
	_, err := secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { m.observe(ctx, object) },
		UpdateFunc: func(_, object any) { m.observe(ctx, object) },
		DeleteFunc: func(any) {
			select {
			case gone <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow Secret %s/%s: %w", m.Namespace, m.Name, err)
	}
	if err := m.loadPublished(ctx); err != nil {
		return nil // ctx has ended
	}
	factory.StartWithContext(ctx)
	for ctx.Err() == nil {
		pause := checkInterval
		if m.Renews {
			if err := m.Renew(ctx); err != nil && ctx.Err() == nil {
				m.Log.Error(err, "will try again")
				pause = retryTime
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-gone:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// learn takes up the authorities that are published now, or returns an error once ctx has ended.
func (m *Manager) loadPublished(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, retryTime, true, func(ctx context.Context) (bool, error) {
		bundles, err := m.Published.Authorities(ctx)
		if err != nil {
			m.Log.Error(err, "will try again")
			return false, nil
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, bundle := range bundles {
			m.bundle = union(m.bundle, bundle, time.Now())
		}
		return true, nil
	})
}

// Renew creates the Secret, or renews it if its time has come. Replicas may do so at once: one of them
// succeeds, and the others see what it stored.
func (m *Manager) Renew(ctx context.Context) error {
	api := m.Client.CoreV1().Secrets(m.Namespace)
	secret, err := api.Get(ctx, m.Name, metav1.GetOptions{})
	isNew := apierrors.IsNotFound(err)
	if isNew {
		// One that was deleted is still served by: whoever starts now has to know its authorities.
		data := map[string][]byte{corev1.ServiceAccountRootCAKey: m.Bundle()}
		secret, err = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Type: corev1.SecretTypeTLS, Data: data}, nil
	}
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", m.Namespace, m.Name, err)
	}
	data, err := m.renewed(secret.Data, time.Now())
	if data == nil || err != nil {
		return err
	}
	secret.Data = data
	if isNew {
		_, err = api.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = api.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil // another replica was quicker
	}
	if err != nil {
		return fmt.Errorf("store the certificate of the webhooks in Secret %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// see takes up what the Secret holds.
func (m *Manager) observe(ctx context.Context, object any) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return
	}
	seen, err := pairOf(secret)
	if err != nil {
		m.Log.Error(err, "the webhooks go on with the certificate that they have")
		return
	}
	now := time.Now()
	m.mu.Lock()
	before := m.bundle
	m.bundle = union(seen.bundle, before, now)
	isChanged := string(before) != string(m.bundle)
	if m.latest == nil || !m.latest.equal(seen) { // a Secret that is listed anew is not news
		m.latest = seen
		if m.served == nil || !m.served.isValid(now) || seen.verifiedBy(before, now) {
			m.served = seen
		} else {
			m.applyLater(ctx, publishTime, seen, func() { m.served = seen })
		}
		m.applyLater(ctx, retireTime, seen, func() { m.bundle = union(seen.bundle, nil, time.Now()) })
	}
	m.mu.Unlock()
	if isChanged {
		m.onPublish()
	}
}

// after does something later, unless the Secret holds something else by then, and tells if what is to be published
// has changed by it.
func (m *Manager) applyLater(ctx context.Context, delay time.Duration, seen *pair, do func()) {
	time.AfterFunc(delay, func() {
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		before := m.bundle
		if m.latest == seen {
			do()
		}
		isChanged := string(before) != string(m.bundle)
		m.mu.Unlock()
		if isChanged {
			m.onPublish()
		}
	})
}
