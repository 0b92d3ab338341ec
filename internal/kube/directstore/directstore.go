// Package directstore writes custom objects into the etcd of an API server, in the API server's own storage format. It
// is for an API server with Bursar in the same process, and for objects with Bursar as their only writer. Nobody
// decodes, checks or admits these objects on the way, or checks that their CustomResourceDefinition still exists. Their
// watches, lists and reads go through the API server.
//
// Like all of kube it knows no quota.
package directstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/lru"
)

// writeTimeout bounds one write. After it the write may still be carried out.
const writeTimeout = 10 * time.Second

// namespacesMax is how many namespaces a Store remembers, at about 100 bytes each.
const namespacesMax = 10_000

// Store writes objects into the etcd of one API server. It is safe for concurrent use.
type Store struct {
	kv         clientv3.KV
	prefix     string
	namespaces corev1client.NamespaceInterface
	// active has the revisions of namespaces that were not being deleted at their last read.
	active *lru.Cache
}

// New returns a store on the etcd of an API server with its objects below prefix. It reads namespaces through the API
// server.
func New(kv clientv3.KV, prefix string, namespaces corev1client.NamespaceInterface) *Store {
	return &Store{kv: kv, prefix: prefix, namespaces: namespaces, active: lru.New(namespacesMax)}
}

// Create stores a new object of a resource in its namespace. It sets the metadata, as the API server would. The object
// must have its kind and its version in storage.
//
// After an error of the API server the object is not in storage: AlreadyExists, NotFound without the namespace,
// Forbidden with the cause NamespaceTerminating, and the errors of reading the namespace. After any other error storage
// may still take the object later. After an error the object is of no further use.
func (s *Store) Create(ctx context.Context, resource schema.GroupResource, object metav1.Object) error {
	object.SetUID(uuid.NewUUID())
	object.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	object.SetGeneration(1)
	object.SetResourceVersion("")
	value, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %s %s/%s: %w", resource, object.GetNamespace(), object.GetName(), err)
	}
	key := s.key(resource, object.GetNamespace(), object.GetName())
	for {
		revision, err := s.namespace(ctx, resource, object)
		if err != nil {
			return err
		}
		namespaceKey := s.namespaceKey(object.GetNamespace())
		answer, err := s.commit(ctx, []clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(namespaceKey), "=", revision),
			clientv3.Compare(clientv3.CreateRevision(key), "=", 0),
		}, clientv3.OpPut(key, string(value)), clientv3.OpGet(namespaceKey, clientv3.WithKeysOnly()))
		switch {
		case err != nil:
			return fmt.Errorf("store %s %s/%s in etcd: %w", resource, object.GetNamespace(), object.GetName(), err)
		case answer.Succeeded:
			object.SetResourceVersion(strconv.FormatInt(answer.Header.Revision, 10))
			return nil
		}
		if kvs := answer.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && kvs[0].ModRevision == revision {
			return apierrors.NewAlreadyExists(resource, object.GetName())
		}
		s.active.Remove(object.GetNamespace())
	}
}

// Update stores a new state of an object unchanged since its resource version. It sets the next generation and the new
// resource version. The object must have the UID and the other metadata from storage, and its kind and version as for
// Create.
//
// The error is a Conflict after a change or deletion of the stored object. After any other error storage may still take
// the new state later. After an error the object is of no further use.
func (s *Store) Update(ctx context.Context, resource schema.GroupResource, object metav1.Object) error {
	revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("the version of %s %s: %w", resource, object.GetName(), err)
	}
	object.SetGeneration(object.GetGeneration() + 1)
	object.SetResourceVersion("")
	value, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", resource, object.GetName(), err)
	}
	key := s.key(resource, object.GetNamespace(), object.GetName())
	answer, err := s.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)}, clientv3.OpPut(key, string(value)))
	if err != nil {
		return fmt.Errorf("store %s %s in etcd: %w", resource, object.GetName(), err)
	}
	if !answer.Succeeded {
		return apierrors.NewConflict(resource, object.GetName(), errors.New("it was changed or deleted since it was read"))
	}
	object.SetResourceVersion(strconv.FormatInt(answer.Header.Revision, 10))
	return nil
}

// commit puts an object if all comparisons hold, and otherwise does the rest.
func (s *Store) commit(ctx context.Context, comparisons []clientv3.Cmp, put clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.kv.Txn(ctx).If(comparisons...).Then(put).Else(otherwise...).Commit()
}

func (s *Store) key(resource schema.GroupResource, namespace, name string) string {
	return path.Join(s.prefix, resource.Group, resource.Resource, namespace, name)
}

func (s *Store) namespaceKey(name string) string { return path.Join(s.prefix, "namespaces", name) }

// namespace returns a revision of the object's namespace at which it exists and is not being deleted.
func (s *Store) namespace(ctx context.Context, resource schema.GroupResource, object metav1.Object) (int64, error) {
	name := object.GetNamespace()
	if revision, ok := s.active.Get(name); ok {
		return revision.(int64), nil
	}
	namespace, err := s.namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if namespace.DeletionTimestamp != nil {
		err := apierrors.NewForbidden(resource, object.GetName(), fmt.Errorf("namespace %s is being deleted", name))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
		return 0, err
	}
	revision, err := strconv.ParseInt(namespace.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the version of namespace %s: %w", name, err)
	}
	s.active.Add(name, revision)
	return revision, nil
}
