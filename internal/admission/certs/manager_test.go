package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

const service = "bursar-webhook.bursar-system.svc"

// startManager runs a manager until the test ends.
func startManager(t *testing.T, ctx context.Context, client kubernetes.Interface, renews bool, onPublish func(*Manager)) *Manager {
	t.Helper()
	k := &Manager{Client: client, Namespace: "bursar-system", Name: "tls", DNSNames: []string{service, "localhost"}, Renews: renews, Log: logr.Discard()}
	k.Published = publishedFunc(func(context.Context) ([][]byte, error) { return nil, nil })
	k.OnPublish(func() { onPublish(k) })
	run(t, ctx, k)
	return k
}

func run(t *testing.T, ctx context.Context, k *Manager) {
	t.Helper()
	go func() {
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
}

// served returns the served certificate. It must verify by the bundle.
func served(t *testing.T, k *Manager, bundle []byte) *x509.Certificate {
	t.Helper()
	certificate, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	if _, err := certificate.Leaf.Verify(x509.VerifyOptions{DNSName: service, Roots: pool, CurrentTime: time.Now()}); err != nil {
		t.Errorf("at %s the API server does not accept the certificate: %v", time.Now(), err)
	}
	return certificate.Leaf
}

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, run func(*testing.T, context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		run(t, ctx)
		cancel()
		synctest.Wait()
	})
}

// Replicas have one certificate, even if they start at the same time.
func TestReplicasShareOneCertificate(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		client := fake.NewClientset()
		var published atomic.Int32
		first := startManager(t, ctx, client, true, func(*Manager) { published.Add(1) })
		second := startManager(t, ctx, client, true, func(*Manager) {})
		if first.Ready() == nil || first.Bundle() != nil {
			t.Error("it is ready before there is a certificate")
		}
		time.Sleep(retryTime)
		if err := first.Ready(); err != nil {
			t.Fatal(err)
		}
		if a, b := served(t, first, second.Bundle()), served(t, second, first.Bundle()); !a.Equal(b) {
			t.Error("they serve different certificates")
		}
		if published.Load() != 1 {
			t.Errorf("there was something to publish %d times, want once", published.Load())
		}
	})
}

// A replica started after the deletion of the Secret knows the authority by which the others still serve.
func TestDeletedSecret(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		client := fake.NewClientset()
		first := startManager(t, ctx, client, true, func(*Manager) {})
		synctest.Wait()
		if err := client.CoreV1().Secrets("bursar-system").Delete(ctx, "tls", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		second := startManager(t, ctx, client, true, func(*Manager) {})
		synctest.Wait()
		if served(t, first, second.Bundle()).Equal(served(t, second, first.Bundle())) {
			t.Error("the certificate is not replaced")
		}
	})
}

// Twelve years replace every certificate and every authority. The API server learns of authorities half a minute
// late, and at every moment it can verify the served certificate.
func TestRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		var mu sync.Mutex
		var known []byte
		check := func(k *Manager) *x509.Certificate {
			mu.Lock()
			defer mu.Unlock()
			return served(t, k, known)
		}
		publications, certificates := 0, map[string]bool{}
		k := startManager(t, ctx, fake.NewClientset(), true, func(k *Manager) {
			publications++
			go func() {
				const steps = 12
				for step := range 2 * steps {
					if step == steps/2 {
						mu.Lock()
						known = k.Bundle()
						mu.Unlock()
					}
					if step >= steps/2 || publications > 1 { // before the first, it knows nothing
						check(k)
					}
					time.Sleep(publishTime / steps)
				}
			}()
		})
		time.Sleep(publishTime)
		for range 12 * 365 {
			leaf := check(k)
			if left := time.Until(leaf.NotAfter); left < renewBefore-2*checkInterval {
				t.Fatalf("the certificate ends in %s", left)
			}
			certificates[string(leaf.Signature)] = true
			time.Sleep(24 * time.Hour)
		}
		if len(certificates) < 12 || len(certificates) > 18 || publications != 3 {
			t.Errorf("%d certificates were served in 12 years, and authorities published %d times: when there is one, two, and one again",
				len(certificates), publications)
		}
		if valid := union(k.Bundle(), nil, time.Now()); string(valid) != string(union(known, nil, time.Now())) {
			t.Error("the API server does not know the authorities that are in force")
		}
	})
}

// issued returns a Secret as another component would make it, with another authority each time.
func issued(t *testing.T) *corev1.Secret {
	t.Helper()
	theirs := fake.NewClientset()
	other := &Manager{Client: theirs, Namespace: "bursar-system", Name: "tls", DNSNames: []string{service}}
	if err := other.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	secret, err := theirs.CoreV1().Secrets("bursar-system").Get(t.Context(), "tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Namespace, secret.ResourceVersion = "bursar-system", ""
	return secret
}

// A replica started after a replacement of the Secret may publish next. It knows the authority by which others still
// serve. It forgets the authority once nobody serves by it.
func TestReplacedSecret(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		client := fake.NewClientset()
		secrets := client.CoreV1().Secrets("bursar-system")
		replace := func(secret *corev1.Secret) {
			t.Helper()
			if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := secrets.Create(ctx, issued(t), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		first := startManager(t, ctx, client, false, func(*Manager) {})
		synctest.Wait()
		before := served(t, first, first.Bundle())
		replaced := issued(t)
		replace(replaced)

		second := &Manager{Client: client, Namespace: "bursar-system", Name: "tls", Log: logr.Discard()}
		second.OnPublish(func() {})
		failures := 2
		second.Published = publishedFunc(func(context.Context) ([][]byte, error) {
			if failures--; failures >= 0 {
				return nil, errors.New("nobody answers")
			}
			return [][]byte{bytes.TrimSpace(first.Bundle()), first.Bundle()}, nil
		})
		run(t, ctx, second)
		time.Sleep(2 * retryTime)
		synctest.Wait()
		if after := served(t, second, first.Bundle()); after.Equal(before) || !served(t, first, second.Bundle()).Equal(before) {
			t.Error("the replicas do not serve by one authority each")
		}
		labelled := replaced.DeepCopy()
		labelled.Labels = map[string]string{"example.com/changed": "true"}
		replace(labelled)
		if !served(t, first, second.Bundle()).Equal(before) {
			t.Error("a label has the certificate served whose authority nobody knows yet")
		}
		time.Sleep(retireTime)
		synctest.Wait()
		for _, k := range []*Manager{first, second} {
			served(t, k, replaced.Data[corev1.ServiceAccountRootCAKey])
			if string(k.Bundle()) != string(replaced.Data[corev1.ServiceAccountRootCAKey]) {
				t.Error("the authority that nobody serves by is still published")
			}
		}
	})
}

// The manager watches a Secret of another component, and never writes it.
func TestSecretOfSomebodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, ctx context.Context) {
		client := fake.NewClientset()
		var published atomic.Int32
		k := startManager(t, ctx, client, false, func(*Manager) { published.Add(1) })
		time.Sleep(2 * checkInterval)
		if k.Ready() == nil || len(client.Actions()) > 2 { // a list and a watch
			t.Errorf("without a Secret it is ready: %v, and asked %v", k.Ready() == nil, client.Actions())
		}
		secrets := client.CoreV1().Secrets("bursar-system")
		if _, err := secrets.Create(ctx, issued(t), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := served(t, k, k.Bundle())
		if _, err := secrets.Update(ctx, issued(t), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !served(t, k, k.Bundle()).Equal(before) {
			t.Error("a certificate is served whose authority nobody knows yet")
		}
		time.Sleep(publishTime)
		synctest.Wait()
		if served(t, k, k.Bundle()).Equal(before) || published.Load() != 2 {
			t.Errorf("the new certificate is not served, published %d times", published.Load())
		}
		broken := issued(t)
		broken.Data[corev1.TLSPrivateKeyKey] = []byte("nothing")
		if _, err := secrets.Update(ctx, broken, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * publishTime)
		served(t, k, k.Bundle())
		if err := k.Ready(); err != nil {
			t.Errorf("a Secret that cannot be read: %v", err)
		}
	})
}

// publishedFunc returns the published authorities.
type publishedFunc func(ctx context.Context) ([][]byte, error)

func (f publishedFunc) Authorities(ctx context.Context) ([][]byte, error) { return f(ctx) }
