package access

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// entry is the key's entry in the Secret.
const entry = "key"

// SharedKey returns the key that all replicas share, from the Secret with the name. The first replica makes it. A
// replica uses its first key until it ends.
func SharedKey(ctx context.Context, secrets typedcorev1.SecretInterface, name string) (Key, error) {
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeOpaque, Immutable: new(true),
			Data: map[string][]byte{entry: NewKey()},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			secret, err = secrets.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read or create Secret %s with the key for webhook calls: %w", name, err)
	}
	key := Key(secret.Data[entry])
	if len(key) != keyBytes {
		return nil, fmt.Errorf("the entry %q of Secret %s has %d bytes, not %d: delete the Secret and restart all replicas", entry, name, len(key), keyBytes)
	}
	return key, nil
}
