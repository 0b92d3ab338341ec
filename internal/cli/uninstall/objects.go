package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	// pageSize is how many objects one request lists, and deletePageSize how many it deletes.
	pageSize, deletePageSize = 500, 200
	// concurrency is how many requests run at the same time.
	concurrency = 16
	// poll is the interval between attempts, and stallTimeout how long attempts may make no progress: API servers
	// continue to call a deleted webhook for a moment.
	poll, stallTimeout = 200 * time.Millisecond, 30 * time.Second
)

// eachPage lists the objects of a kind, page by page.
func (u *uninstaller) eachPage(ctx context.Context, k kind, do func([]metav1.PartialObjectMetadata) error) error {
	for next := ""; ; {
		list, err := u.metadata.Resource(k.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
		if apierrors.IsNotFound(err) {
			return nil // the definition no longer exists
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", k, err)
		}
		if err := do(list.Items); err != nil {
			return err
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// count counts the objects of a kind by namespace.
func (u *uninstaller) count(ctx context.Context, k kind) (byNamespace map[string]int, all int, err error) {
	byNamespace = map[string]int{}
	err = u.eachPage(ctx, k, func(page []metav1.PartialObjectMetadata) error {
		for i := range page {
			byNamespace[page[i].Namespace]++
		}
		all += len(page)
		return nil
	})
	return byNamespace, all, err
}

// persist repeats a step until nothing remains. It fails after stallTimeout without progress.
func persist(ctx context.Context, step func() (remaining int, err error)) error {
	least, since := math.MaxInt, time.Now()
	return wait.PollUntilContextCancel(ctx, poll, true, func(context.Context) (bool, error) {
		remaining, err := step()
		if remaining == 0 && err == nil {
			return true, nil
		}
		if remaining < least {
			least, since = remaining, time.Now()
		}
		if time.Since(since) < stallTimeout && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			return false, nil
		}
		if err == nil {
			err = fmt.Errorf("%d remain", remaining)
		}
		return false, err
	})
}

// removeFinalizers removes Bursar's finalizers from its objects, so no deletion waits for an operator. Finalizers of
// others stay.
func (u *uninstaller) removeFinalizers(ctx context.Context) error {
	for _, k := range u.kinds {
		var removed atomic.Int64
		err := persist(ctx, func() (remaining int, err error) { return u.removeFinalizersOf(ctx, k, &removed) })
		if count := removed.Load(); count > 0 {
			u.report("lifted", "lift", "the finalizers of %d %s", count, k)
		}
		if err != nil {
			return fmt.Errorf("lift the finalizers of %s: %w", k, err)
		}
		if err := u.warnOfOtherControlPlanes(ctx, k); err != nil {
			return err
		}
	}
	return u.unlessDry(ctx, u.checkSilent)
}

// removeFinalizersOf processes the objects of a kind once. It counts in removed the changed objects or, in a dry run,
// the objects to change, and returns the number of objects with remaining finalizers.
func (u *uninstaller) removeFinalizersOf(ctx context.Context, k kind, removed *atomic.Int64) (int, error) {
	var remaining atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	remove := func(object metav1.PartialObjectMetadata, others []string) error {
		err := u.setFinalizers(ctx, k, object, others)
		if err == nil {
			removed.Add(1)
			remaining.Add(-1)
		}
		if apierrors.IsConflict(err) {
			return nil // the next list has the object again
		}
		return err
	}
	err := u.eachPage(ctx, k, func(page []metav1.PartialObjectMetadata) error {
		for _, object := range page {
			others := slices.DeleteFunc(slices.Clone(object.Finalizers), isOurs)
			switch {
			case len(others) == len(object.Finalizers):
			case u.DryRun:
				removed.Add(1)
			default:
				remaining.Add(1)
				group.Go(func() error { return remove(object, others) })
			}
		}
		return nil
	})
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	return int(remaining.Load()), err
}

func (u *uninstaller) unlessDry(ctx context.Context, do func(context.Context) error) error {
	if u.DryRun {
		return nil
	}
	return do(ctx)
}

func isOurs(finalizer string) bool {
	return strings.HasPrefix(finalizer, quotav1alpha1.GroupName+"/") || strings.HasPrefix(finalizer, "quota.openmcp.cloud/")
}

// setFinalizers replaces the finalizers of an object if it has not changed since the list.
func (u *uninstaller) setFinalizers(ctx context.Context, k kind, object metav1.PartialObjectMetadata, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.UID, "resourceVersion": object.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = u.metadata.Resource(k.GroupVersionResource).Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeObjects removes all objects of Bursar's kinds.
func (u *uninstaller) removeObjects(ctx context.Context) error {
	for _, k := range u.kinds {
		_, before, err := u.count(ctx, k)
		if err != nil {
			return err
		}
		if before == 0 {
			continue
		}
		if !u.DryRun {
			if err := u.removeAll(ctx, k); err != nil {
				return fmt.Errorf("delete %s: %w", k, err)
			}
		}
		u.report("deleted", "delete", "%d %s", before, k)
	}
	return u.unlessDry(ctx, u.checkSilent)
}

// removeAll deletes the objects of a kind, a page by a request. One request for all would exceed the API server's
// timeout, because the API server deletes the objects of a request one after the other.
func (u *uninstaller) removeAll(ctx context.Context, k kind) error {
	err := persist(ctx, func() (int, error) {
		byNamespace, _, err := u.count(ctx, k)
		if err != nil {
			return math.MaxInt, err
		}
		group, deleting := errgroup.WithContext(ctx)
		group.SetLimit(concurrency)
		for namespace, count := range byNamespace {
			pages, err := u.pagesOf(ctx, k, namespace, count)
			if err != nil {
				return math.MaxInt, errors.Join(err, group.Wait())
			}
			for _, page := range pages {
				group.Go(func() error { return u.removePage(deleting, k, namespace, page) })
			}
		}
		err = group.Wait()
		_, remaining, errCount := u.count(ctx, k)
		if err == nil {
			err = errCount
		}
		return remaining, err
	})
	if err != nil {
		return u.explainStall(ctx, k, err)
	}
	return nil
}

// pagesOf returns the tokens of the pages of the objects in a namespace.
func (u *uninstaller) pagesOf(ctx context.Context, k kind, namespace string, count int) ([]string, error) {
	pages := []string{""}
	for range count / deletePageSize {
		last := pages[len(pages)-1]
		list, err := u.metadata.Resource(k.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: deletePageSize, Continue: last})
		if err != nil {
			return nil, fmt.Errorf("list %s in namespace %s: %w", k, namespace, err)
		}
		if list.Continue == "" {
			break
		}
		pages = append(pages, list.Continue)
	}
	return pages, nil
}

func (u *uninstaller) removePage(ctx context.Context, k kind, namespace, page string) error {
	background := metav1.DeletePropagationBackground
	err := u.metadata.Resource(k.GroupVersionResource).Namespace(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{Limit: deletePageSize, Continue: page})
	if apierrors.IsNotFound(err) || apierrors.IsResourceExpired(err) {
		return nil // the next list has the rest of the page again
	}
	return err
}

// explainStall names an object still waiting for its deletion, and the owners of its finalizers.
func (u *uninstaller) explainStall(ctx context.Context, k kind, stalled error) error {
	var held error
	err := u.eachPage(ctx, k, func(page []metav1.PartialObjectMetadata) error {
		for _, object := range page {
			if len(object.Finalizers) > 0 && held == nil {
				held = fmt.Errorf("%s has the finalizers %s, which Bursar does not own; have their owners remove them: %w",
					types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, strings.Join(object.Finalizers, ", "), stalled)
			}
		}
		return nil
	})
	if held != nil {
		return held
	}
	if err != nil {
		return err
	}
	return stalled
}
