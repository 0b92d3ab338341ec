// Package certs manages the serving certificate of the webhooks, in a Secret of all replicas. It replaces the
// certificate without a failed call.
//
// It serves a certificate of the same authority at once. It serves a certificate of another authority after the API
// servers have had time to learn of that authority. It publishes all authorities of the replicas' certificates
// together, so API servers can verify every served certificate. Later it removes the authorities that are no longer
// in the Secret.
//
// Package server imports it.
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
	// publishTime bounds the time from publishing an authority until all API servers know it.
	publishTime = time.Minute
	// retireTime is how long authorities outside the Secret stay published, because replicas may still serve by them. It
	// is a multiple of publishTime, because replicas do not all see a change of the Secret at once.
	retireTime = 10 * publishTime
	// checkInterval is the interval of checks for renewal, and retryTime the interval after a failure.
	checkInterval = 12 * time.Hour
	retryTime     = 5 * time.Second
)

// Published are the authorities in the published webhook configurations.
type Published interface {
	// Authorities returns bundles in PEM. A new replica must know the authorities of the other replicas, because it may
	// be the next one to publish.
	Authorities(ctx context.Context) ([][]byte, error)
}

// Manager maintains a certificate. Set its fields once, then call Run.
type Manager struct {
	Client kubernetes.Interface
	// Namespace and Name are those of the Secret.
	Namespace, Name string
	// DNSNames are the names in the certificate. There is at least one.
	DNSNames []string
	// Renews makes the manager create and renew the Secret. Otherwise another component does, such as cert-manager.
	Renews bool
	// Published are the currently published authorities.
	Published Published
	Log       logr.Logger

	// The Manager calls onPublish after a change of the authorities to publish.
	onPublish func()

	mu     sync.RWMutex
	served *pair
	// latest is the content of the Secret. The Manager serves it once API servers know its authority.
	latest *pair
	bundle []byte
}

// OnPublish registers f. The Manager calls f after a change of the authorities to publish. Call it once, before Run.
func (m *Manager) OnPublish(f func()) { m.onPublish = f }

// GetCertificate is a GetCertificate function of [tls.Config].
func (m *Manager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.served == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return m.served.certificate, nil
}

// Bundle returns the authorities to publish, in PEM, or nil if it knows none yet.
func (m *Manager) Bundle() []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.bundle
}

// VerifiedBy reports whether one of the authorities, in PEM, issued the served certificate.
func (m *Manager) VerifiedBy(authorities []byte) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.served != nil && m.served.verifiedBy(authorities, time.Now())
}

// Ready returns nil if there is a valid certificate to serve, or the reason why not.
func (m *Manager) Ready() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.served == nil:
		return fmt.Errorf("the Secret %s/%s holds no certificate for the webhooks yet", m.Namespace, m.Name)
	case !m.served.isValid(time.Now()):
		return fmt.Errorf("the certificate for the webhooks in Secret %s/%s is valid only from %s to %s",
			m.Namespace, m.Name, m.served.certificate.Leaf.NotBefore, m.served.certificate.Leaf.NotAfter)
	default:
		return nil
	}
}

// Run watches the Secret, and renews it if it is Bursar's own, until ctx ends.
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

// loadPublished adds the currently published authorities to the bundle. It returns an error once ctx has ended.
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

// Renew creates the Secret, or renews it when due. Replicas may do so at the same time: one of them succeeds, and the
// others see the result.
func (m *Manager) Renew(ctx context.Context) error {
	api := m.Client.CoreV1().Secrets(m.Namespace)
	secret, err := api.Get(ctx, m.Name, metav1.GetOptions{})
	isNew := apierrors.IsNotFound(err)
	if isNew {
		// Replicas may still serve a deleted certificate, so a new replica has to know its authorities.
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

// observe takes over the content of the Secret.
func (m *Manager) observe(ctx context.Context, object any) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return
	}
	seen, err := pairOf(secret)
	if err != nil {
		m.Log.Error(err, "the webhooks keep their current certificate")
		return
	}
	now := time.Now()
	m.mu.Lock()
	before := m.bundle
	m.bundle = union(seen.bundle, before, now)
	isChanged := string(before) != string(m.bundle)
	if m.latest == nil || !m.latest.equal(seen) { // a relisted Secret is not a change
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

// applyLater calls do after a delay, unless the Secret has changed by then, and reports a change of the bundle.
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
