package apiserver

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// widgetServer serves widgets, or removes their kind.
type widgetServer struct {
	*fake.FakeMetadataClient
	mu        sync.Mutex
	isRemoved bool
	lists     int
	watches   []*watch.FakeWatcher
}

func newWidgetServer(t *testing.T, objects ...runtime.Object) *widgetServer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &widgetServer{FakeMetadataClient: fake.NewSimpleMetadataClient(scheme, objects...)}
	s.PrependReactor("list", widgets.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists++
		if s.isRemoved {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "list", widgets.GroupResource(), "", "", 0, true)
		}
		return false, nil, nil
	})
	s.PrependWatchReactor(widgets.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watches = append(s.watches, watch.NewFake())
		return true, s.watches[len(s.watches)-1], nil
	})
	return s
}

// serve begins or ends to serve widgets, and closes the watches.
func (s *widgetServer) serve(isServed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isRemoved = !isServed
	for _, open := range s.watches {
		open.Stop()
	}
	s.watches = nil
}

// isListed reports whether somebody lists widgets within an hour.
func (s *widgetServer) isListed() bool {
	s.mu.Lock()
	before := s.lists
	s.mu.Unlock()
	time.Sleep(time.Hour)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists > before
}

// inBubble runs a test with its own time. The default error handlers compare it with the time outside.
func inBubble(t *testing.T, run func(*testing.T)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	synctest.Test(t, run)
}

// followWidgets follows widgets in the way of the upstream controllers, until end is called. known counts the widgets.
func followWidgets(t *testing.T, all *controllerInformers) (known func() int, end func()) {
	t.Helper()
	shared, err := all.ForResource(widgets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	controller, stop := shared.Informer().GetController(), make(chan struct{})
	all.Start(t.Context().Done())
	go controller.Run(stop)
	synctest.Wait()
	if !controller.HasSynced() {
		t.Error("the widgets are not listed")
	}
	known = func() int {
		found, err := shared.Lister().List(labels.Everything())
		if err != nil {
			t.Error(err)
		}
		return len(found)
	}
	return known, func() {
		close(stop)
		synctest.Wait()
	}
}

// TestInformerOfRemovedKind checks that a removed kind is not listed for ever, and that a returned one is followed again.
func TestInformerOfRemovedKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		server := newWidgetServer(t)
		all := newControllerInformers(informers.NewSharedInformerFactory(nil, 0), server)
		_, endFirst := followWidgets(t, all)
		_, endSecond := followWidgets(t, all)
		server.serve(false)
		endFirst()
		if !server.isListed() {
			t.Error("the informer has stopped for its other controller, too")
		}
		endSecond()
		if server.isListed() {
			t.Error("the informer of the removed kind lists it again and again")
		}
		shared, err := all.ForResource(widgets) // for a ResourceQuota that names the kind
		all.Start(t.Context().Done())
		if err != nil || !shared.Informer().HasSynced() || server.isListed() {
			t.Errorf("a count of the removed kind: %v, isn't 0, or lists it", err)
		}

		server.serve(true)
		if err := server.Tracker().Create(widgets, widget(), "shop"); err != nil {
			t.Fatal(err)
		}
		known, end := followWidgets(t, all)
		defer end()
		if known() != 1 {
			t.Errorf("after the return of the kind, %d widgets are known", known())
		}
	})
}

// TestInformerOfAbsentKind checks that an informer with objects goes on: an aggregated API server may return, and its
// list shows deletions.
func TestInformerOfAbsentKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		server := newWidgetServer(t, widget())
		all := newControllerInformers(informers.NewSharedInformerFactory(nil, 0), server)
		known, end := followWidgets(t, all)
		server.serve(false)
		end()
		if known() != 1 {
			t.Errorf("%d widgets are known", known())
		}
		if err := server.Tracker().Delete(widgets, "shop", "one"); err != nil {
			t.Fatal(err)
		}
		server.serve(true)
		if !server.isListed() || known() != 0 {
			t.Errorf("after the return of the kind, %d widgets are known", known())
		}
	})
}

func widget() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: widgets.GroupVersion().String(), Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one", UID: "1"},
	}
}
