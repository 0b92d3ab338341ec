package watcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/inventory"
	"github.com/bursar/bursar/internal/ledger"
)

// replace puts a list into the inventory. The demands rest on the namespaces as they were before the list, or later.
func (k *kindWatch) replace(version ledger.Version, objects []inventory.Object) ([]quotav1alpha1.ConsumerRef, error) {
	k.feeding.Lock()
	defer k.feeding.Unlock()
	if k.ctx.Err() != nil || !k.takeOver(k) {
		return nil, nil // another watch is to follow
	}
	basis := ledger.Basis{Objects: version, Policies: k.policiesVersion}
	if k.usesNamespaces {
		basis.Namespaces = ledger.Version(k.listed.Load())
	}
	consumers, ok := k.target.Replace(basis, slices.Values(objects))
	if !ok {
		return nil, errOldList
	}
	k.recounted = basis.Namespaces
	k.isListed.Store(true)
	return consumers, nil
}

// confirm raises the versions of the policies and the namespaces, once all demands are as those have them.
func (k *kindWatch) confirm(ctx context.Context, policies ledger.Version) {
	if !k.isListed.Load() {
		return
	}
	before, _ := k.target.Basis()
	consumers, err := k.recount(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.Log.Error(err, "cannot count the objects of a changed namespace again, will try again", "kind", k.kind.String())
		}
		return
	}

	k.feed(func() []quotav1alpha1.ConsumerRef {
		k.policiesVersion = max(k.policiesVersion, policies)
		k.target.Confirm(k.policiesVersion, k.recounted)
		return nil
	})
	if after, _ := k.target.Basis(); len(consumers) > 0 || after.Policies != before.Policies || after.Namespaces != before.Namespaces {
		k.kindChanged(k.name, consumers)
	}
}

// recount evaluates the policies again for the objects of changed namespaces. It waits for a list in progress: by later
// namespaces than those of the list, the inventory would refuse the list, and again each time that a namespace changes.
func (k *kindWatch) recount(ctx context.Context) (consumers []quotav1alpha1.ConsumerRef, err error) {
	if !k.usesNamespaces {
		return nil, nil
	}
	began := k.recountedVersion()
	version, changed := k.namespaces.changedSince(began)
	if k.freshness.awaitsList() { // one that begins later knows these namespaces
		return nil, nil
	}

	var all []inventory.Object
	for _, namespace := range changed {
		listed, err := k.listNamespace(ctx, namespace)
		if err != nil {
			return nil, fmt.Errorf("list the %s of namespace %s: %w", k.resource.Resource, namespace, err)
		}
		all = append(all, listed...)
	}

	const poll = 5 * time.Millisecond
	err = wait.PollUntilContextTimeout(ctx, poll, catchUpMax, true, func(context.Context) (ok bool, _ error) {
		consumers, ok = k.recountTo(version, began, all)
		return ok, nil
	})
	if err != nil {
		return nil, errLagging
	}
	return consumers, nil
}

// recountTo replaces the demands of listed objects by those of a later version of the namespaces. All change together,
// because all demands of the kind rest on one version. It reports false while the watch lags behind the list.
func (k *kindWatch) recountTo(version, began ledger.Version, all []inventory.Object) (consumers []quotav1alpha1.ConsumerRef, ok bool) {
	consumers, _ = k.feed(func() []quotav1alpha1.ConsumerRef {
		if k.recounted != began { // there is another list by now, and the next call looks again
			ok = true
			return nil
		}
		affected, isDone := k.target.Recount(version, all)
		if isDone {
			k.recounted, ok = max(k.recounted, version), true
		}
		return affected
	})
	return consumers, ok
}

func (k *kindWatch) recountedVersion() ledger.Version {
	k.feeding.Lock()
	defer k.feeding.Unlock()
	return k.recounted
}

const (
	// pageSize is how many objects one request lists.
	pageSize = 500
	// catchUpMax is how long the watch may lag behind a list of the objects of a namespace.
	catchUpMax = 10 * time.Second
)

// errLagging means that the watch of a kind lags behind a list.
var errLagging = errors.New("the watch lags behind the API server")

// listNamespace lists the objects of a namespace with their demands.
func (k *kindWatch) listNamespace(ctx context.Context, namespace string) (all []inventory.Object, err error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return k.list(ctx, namespace, options)
	})
	pages.PageSize = pageSize
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		o, err := k.count(obj)
		if err == nil {
			all = append(all, o.Object)
		}
		return err
	})
	return all, err
}
