package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/internal/admission/certs"
	operator "github.com/bursar/bursar/test/replica"
)

// rotateAndUpgrade deletes the certificate of the webhooks and has it replaced by one of yet another authority, and
// replaces every replica meanwhile. No call fails.
func (f *faults) rotateAndUpgrade() {
	f.Helper()
	began := time.Now()
	key := client.ObjectKey{Namespace: system, Name: "bursar-webhooks-tls"}
	f.disturb("the certificate is deleted", func() {
		if err := f.Delete(f.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
			f.Fatal(err)
		}
		f.wantAuthorities(key)
	})
	f.disturb("it is replaced by one of another authority", func() {
		f.eventually(func() error { // a replica may have written it since
			var secret corev1.Secret
			if err := f.Get(f.Context(), key, &secret); err != nil {
				return err
			}
			secret.Data = f.otherCertificate(key)
			return f.Update(f.Context(), &secret)
		})
		f.wantAuthorities(key)
	})
	f.replaceAll()
	f.disturb("the latest certificate is served", func() { f.wantServed(key) })
	f.wantNoFailure(began, "the certificate and all replicas were replaced")
}

// replaceAll starts a replica for each one before it stops the old one, as a Deployment does with maxUnavailable 0.
func (f *faults) replaceAll() {
	f.Helper()
	for _, old := range slices.Clone(f.replicas) {
		f.disturb("a replica is replaced", func() {
			f.startReplica(f.T)
			old.Signal(syscall.SIGTERM)
			<-old.Ended()
			if code := old.ExitCode(); code != 0 {
				f.Errorf("a replica ended with exit code %d", code)
			}
			f.replicas = slices.DeleteFunc(f.replicas, func(r *operator.Replica) bool { return r == old })
		})
	}
}

// wantNoFailure checks that no call failed since a time.
func (f *faults) wantNoFailure(began time.Time, while string) {
	f.Helper()
	failed := f.load.failed(began)
	maps.DeleteFunc(failed, func(text string, count int) bool { return isSlow(text) && count <= slowCallsMax })
	if len(failed) > 0 {
		f.Errorf("calls failed while %s: %v", while, failed)
	}
}

// otherCertificate is the content that Bursar would put into its Secret if there were none.
func (f *faults) otherCertificate(key client.ObjectKey) map[string][]byte {
	f.Helper()
	elsewhere := fake.NewClientset()
	manager := &certs.Manager{Client: elsewhere, Namespace: key.Namespace, Name: key.Name, DNSNames: []string{"localhost"}, Log: logr.Discard()}
	if err := manager.Renew(f.Context()); err != nil {
		f.Fatal(err)
	}
	secret, err := elsewhere.CoreV1().Secrets(key.Namespace).Get(f.Context(), key.Name, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return secret.Data
}

// wantAuthorities waits until Bursar publishes the authority of the Secret beside another.
func (f *faults) wantAuthorities(key client.ObjectKey) {
	f.Helper()
	f.eventually(func() error {
		var secret corev1.Secret
		if err := f.Get(f.Context(), key, &secret); err != nil {
			return err
		}
		authorities, err := certutil.ParseCertsPEM(secret.Data[corev1.ServiceAccountRootCAKey])
		if err != nil {
			return err
		}
		var configurations admissionregistrationv1.ValidatingWebhookConfigurationList
		if err := f.List(f.Context(), &configurations); err != nil {
			return err
		}
		for _, configuration := range configurations.Items {
			for _, webhook := range configuration.Webhooks {
				published, err := certutil.ParseCertsPEM(webhook.ClientConfig.CABundle)
				if err != nil || len(published) < 2 || !slices.ContainsFunc(published, authorities[0].Equal) {
					return fmt.Errorf("webhook %s has %d authorities: %w", webhook.Name, len(published), err)
				}
			}
		}
		return nil
	})
}

// wantServed waits until every replica serves the certificate of the Secret.
func (f *faults) wantServed(key client.ObjectKey) {
	f.Helper()
	var secret corev1.Secret
	if err := f.Get(f.Context(), key, &secret); err != nil {
		f.Fatal(err)
	}
	want, err := certutil.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range f.replicas {
		f.eventually(func() error {
			return served(f.Context(), r.Webhooks(), want[0].Raw)
		})
	}
}

// served asks a server for its certificate. It has to be the wanted one.
func served(ctx context.Context, address string, want []byte) error {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is only looked at
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // nothing was sent
	if !bytes.Equal(connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw, want) {
		return errors.New("another certificate is served")
	}
	return nil
}
