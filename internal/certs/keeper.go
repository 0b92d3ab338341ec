// Package certs keeps the certificate by which the webhooks are served, in a Secret that all replicas
// share, and replaces it without a call that fails.
//
// A certificate of the same authority is served at once. One of another authority waits until the API
// server has had the time to learn of that authority: all authorities that are in force are published
// together, so that whichever certificate a replica serves can be checked.
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
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// publishTime is how long it takes at most until the API servers know of an authority that was
	// published.
	publishTime = time.Minute
	// checkInterval is how often it is checked whether the certificate has to be renewed, and retryTime
	// how soon again if that failed.
	checkInterval = 12 * time.Hour
	retryTime     = 5 * time.Second
)

// Keeper keeps a certificate. Its fields are set once; then Run it.
type Keeper struct {
	Client kubernetes.Interface
	// Namespace and Name are those of the Secret.
	Namespace, Name string
	// DNSNames are what the webhooks are called by. There is at least one.
	DNSNames []string
	// Renews tells that the Secret is Bursar's own: it is created, and renewed in time. Otherwise
	// somebody else does so, such as cert-manager.
	Renews bool
	// OnPublish is called after other authorities are to be published.
	OnPublish func()
	Log       logr.Logger

	mu     sync.RWMutex
	served *pair
	// next is what is served once its authority is known.
	next   *pair
	bundle []byte
}

// GetCertificate has the form that [tls.Config] wants.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.served == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return k.served.certificate, nil
}

// Bundle returns the authorities that are to be published, in PEM, or nil if none is known yet.
func (k *Keeper) Bundle() []byte {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.bundle
}

// IsCheckedBy tells whether one of some authorities, in PEM, is that of the certificate that is served.
func (k *Keeper) IsCheckedBy(authorities []byte) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.served != nil && k.served.isCheckedBy(authorities, time.Now())
}

// Ready tells why there is nothing to serve, or returns nil.
func (k *Keeper) Ready() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	switch {
	case k.served == nil:
		return fmt.Errorf("the Secret %s/%s holds no certificate for the webhooks yet", k.Namespace, k.Name)
	case !k.served.isValid(time.Now()):
		return fmt.Errorf("the certificate for the webhooks in Secret %s/%s is in force from %s to %s alone",
			k.Namespace, k.Name, k.served.certificate.Leaf.NotBefore, k.served.certificate.Leaf.NotAfter)
	default:
		return nil
	}
}

// Run follows the Secret, and renews it if it is Bursar's own, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(k.Client, 0, informers.WithNamespace(k.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name).String()
		}))
	secrets := factory.Core().V1().Secrets().Informer()
	gone := make(chan struct{}, 1)
	_, err := secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { k.see(ctx, object) },
		UpdateFunc: func(_, object any) { k.see(ctx, object) },
		DeleteFunc: func(any) {
			select {
			case gone <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return fmt.Errorf("follow Secret %s/%s: %w", k.Namespace, k.Name, err)
	}
	factory.StartWithContext(ctx)
	for ctx.Err() == nil {
		wait := checkInterval
		if k.Renews {
			if err := k.Renew(ctx); err != nil && ctx.Err() == nil {
				k.Log.Error(err, "will try again")
				wait = retryTime
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-gone:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// Renew creates the Secret, or renews it if its time has come. Replicas may do so at once: one of them
// succeeds, and the others see what it stored.
func (k *Keeper) Renew(ctx context.Context) error {
	api := k.Client.CoreV1().Secrets(k.Namespace)
	secret, err := api.Get(ctx, k.Name, metav1.GetOptions{})
	isNew := apierrors.IsNotFound(err)
	if isNew {
		// One that was deleted is still served by: whoever starts now has to know its authorities.
		data := map[string][]byte{corev1.ServiceAccountRootCAKey: k.Bundle()}
		secret, err = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: k.Name}, Type: corev1.SecretTypeTLS, Data: data}, nil
	}
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %w", k.Namespace, k.Name, err)
	}
	data, err := k.renewed(secret.Data, time.Now())
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
		return fmt.Errorf("store the certificate of the webhooks in Secret %s/%s: %w", k.Namespace, k.Name, err)
	}
	return nil
}

// see takes up what the Secret holds.
func (k *Keeper) see(ctx context.Context, object any) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return
	}
	seen, err := pairOf(secret)
	if err != nil {
		k.Log.Error(err, "the webhooks go on with the certificate that they have")
		return
	}
	now := time.Now()
	k.mu.Lock()
	before := k.bundle
	k.bundle = union(seen.bundle, k.bundle, now)
	isNews := string(before) != string(k.bundle)
	switch {
	case k.served == nil || !k.served.isValid(now) || seen.isCheckedBy(before, now):
		k.served, k.next = seen, nil
	default:
		k.next = seen
		time.AfterFunc(publishTime, func() { k.serve(ctx, seen) })
	}
	k.mu.Unlock()
	if isNews && k.OnPublish != nil {
		k.OnPublish()
	}
}

// serve serves a certificate whose authority is known by now, if it still is the latest.
func (k *Keeper) serve(ctx context.Context, p *pair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == p && ctx.Err() == nil {
		k.served, k.next = p, nil
	}
}
