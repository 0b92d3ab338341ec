package restore

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// pageSize is how many objects one request lists.
const pageSize = 500

// objectKind is a kind of object.
type objectKind = schema.GroupKind

// knownObjects are the UIDs of the objects of a kind.
type knownObjects struct {
	uids    map[types.NamespacedName]types.UID
	version string
}

// liveObjects finds the objects of the server by kind and name. It lists each kind once, as metadata.
type liveObjects struct {
	mapper   apimeta.RESTMapper
	metadata metadata.Interface
	kinds    map[objectKind]*knownObjects
}

// uid returns the UID of an object, or "" if there is none or the server does not serve its kind.
func (l *liveObjects) uid(ctx context.Context, kind objectKind, name types.NamespacedName) (types.UID, error) {
	known, isListed := l.kinds[kind]
	if !isListed {
		var err error
		if known, err = l.list(ctx, kind); err != nil {
			return "", err
		}
		l.kinds[kind] = known
	}
	return known.uids[name], nil
}

func (l *liveObjects) list(ctx context.Context, kind objectKind) (*knownObjects, error) {
	known := &knownObjects{uids: map[types.NamespacedName]types.UID{}}
	mapping, err := l.mapper.RESTMapping(kind)
	if apimeta.IsNoMatchError(err) {
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the resource of kind %s: %w", kind, err)
	}
	known.version = mapping.GroupVersionKind.GroupVersion().String()
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := l.metadata.Resource(mapping.Resource).List(ctx, options)
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return known, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the objects of kind %s: %w", kind, err)
		}
		for i := range page.Items {
			known.uids[types.NamespacedName{Namespace: page.Items[i].Namespace, Name: page.Items[i].Name}] = page.Items[i].UID
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return known, nil
		}
	}
}
