package features

import (
	"context"
	"sync"

	"github.com/open-feature/go-sdk/openfeature"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// follower reads quota, and follows its changes, from a start to a shutdown.
type follower struct {
	known  index
	events outbox
	cancel context.CancelFunc
	// synced is closed after the first list, and done after the end.
	synced, done chan struct{}

	mu sync.Mutex
	// last is the last failure to read before the first list.
	last error
}

func newFollower() *follower {
	return &follower{events: outbox{news: make(chan struct{}, 1)}, synced: make(chan struct{}), done: make(chan struct{})}
}

// start starts a follower. The provider knows its quota from the first list to the end.
func (f *follower) start(p *Provider) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	informer := cache.NewSharedIndexInformer(f.source(p.quota, p.options.Namespace), &quotav1alpha1.EffectiveResourceGrant{}, 0, cache.Indexers{})
	handled, err := informer.AddEventHandler(f.handler())
	if err != nil {
		panic(err) // only a stopped informer takes no handler
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() { f.publish(ctx, p.events) })
	running.Go(func() {
		select {
		case <-handled.HasSyncedChecker().Done():
			p.known.Store(&f.known)
			f.events.ready()
			close(f.synced)
		case <-ctx.Done():
		}
	})
	go func() {
		running.Wait()
		p.known.CompareAndSwap(&f.known, nil)
		close(f.done)
	}()
}

// source lists and watches effective grants. It notes lost and regained connections: an informer hides most of them.
func (f *follower) source(quota rest.Interface, namespace string) *cache.ListWatch {
	source := cache.NewListWatchFromClient(quota, "effectiveresourcegrants", namespace, fields.Everything())
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := source.ListWithContext(ctx, options)
			if err != nil {
				f.failed(ctx, err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			changes, err := source.WatchWithContext(ctx, options)
			if err != nil {
				f.failed(ctx, err)
			} else {
				f.events.regained()
			}
			return changes, err
		},
	}
}

// failed notes a failure to list or watch. A list at an expired version is none: the informer lists again.
func (f *follower) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	f.mu.Lock()
	f.last = err
	f.mu.Unlock()
	f.events.lost(err)
}

// failure returns the last failure, or else another error.
func (f *follower) failure(other error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		return f.last
	}
	return other
}

// publish hands the events to a reader until its context ends.
func (f *follower) publish(ctx context.Context, to chan<- openfeature.Event) {
	for {
		event, ok := f.events.next()
		if !ok {
			select {
			case <-f.events.news:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case to <- event:
		case <-ctx.Done():
			return
		}
	}
}

// handler keeps the index up to date, and notes each change of a limit.
func (f *follower) handler() cache.ResourceEventHandler {
	set := func(object any, isInitial bool) {
		shown, ok := object.(*quotav1alpha1.EffectiveResourceGrant)
		if !ok || shown.Status.ObservedGeneration == 0 {
			return // its figures follow in a moment
		}
		if f.known.set(shown) && !isInitial {
			f.events.change(shown.Spec.ResourceType)
		}
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object, false) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if shown, ok := object.(*quotav1alpha1.EffectiveResourceGrant); ok && f.known.remove(shown) {
				f.events.change(shown.Spec.ResourceType)
			}
		},
	}
}
