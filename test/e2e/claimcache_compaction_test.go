package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/deploy/crds"
	"github.com/bursar/bursar/internal/claims/claimcache"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/etcd"
)

// smallPages is a client's transport with few claims on each page of a list.
type smallPages struct {
	http.RoundTripper
	// whole counts the lists without pages. pages counts all pages but the first.
	whole, pages atomic.Int32
	// RoundTrip calls between before each page but the first, with its number from 2 on.
	between func(page int32)
}

func (s *smallPages) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Has("watch") {
		return s.RoundTripper.RoundTrip(request)
	}
	if !query.Has("limit") {
		s.whole.Add(1)
	}
	if query.Has("continue") {
		s.between(s.pages.Add(1) + 1)
	}
	query.Set("limit", "2")
	request = request.Clone(request.Context())
	request.URL.RawQuery = query.Encode()
	return s.RoundTripper.RoundTrip(request)
}

// A list of very many claims takes longer than etcd keeps the version at its beginning. Meanwhile claims change.
func TestListOutlivesCompaction(t *testing.T) {
	// The feature would keep old versions as well, with enough memory for them.
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ListFromCacheSnapshot, false)
	storage := etcd.Start(t)
	ctx, cancel := context.WithCancel(context.Background())
	plane, err := apiserver.Start(ctx, apiserver.Options{
		DataDir: t.TempDir(), Listen: "127.0.0.1:0", Etcd: apiserver.ExternalEtcd{Servers: []string{storage}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = await.End(plane.Wait) })
	api := newClaims(t, plane.Config())
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		api.create(t, name)
	}

	config := rest.CopyConfig(plane.Config())
	pages := &smallPages{between: func(page int32) {
		if page == 2 {
			api.delete(t, "a")
			api.touch(t, "b", 7)
			api.delete(t, "e")
			compact(t, storage)
			api.delete(t, "f")
			api.create(t, "f")
			api.create(t, "bb")
		}
		api.touch(t, "g", int64(page))
		compact(t, storage)
	}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { pages.RoundTripper = next; return pages })
	config.APIPath, config.GroupVersion = "/apis", &quotav1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(api.Scheme()).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	claims := claimcache.New()
	var heard atomic.Pointer[[]string]
	heard.Store(&[]string{})
	claims.OnChange(func(before, after *claimcache.Claim) {
		if before != nil && (after == nil || after.UID != before.UID) {
			more := append(slices.Clone(*heard.Load()), before.Name)
			heard.Store(&more)
		}
	})
	ended := make(chan struct{})
	go func() { defer close(ended); claims.Run(ctx, client) }()
	t.Cleanup(func() { cancel(); <-ended })

	last := int64(100)
	await.NoError(t, time.Minute, func() error {
		if last++; !claims.HasSynced() {
			api.touch(t, "g", last) // so nobody waits for a bookmark
			return fmt.Errorf("after %d pages the list is not there", pages.pages.Load())
		}
		return nil
	})
	api.create(t, "h")
	await.NoError(t, time.Minute, func() error { return api.compare(t, claims) })
	if pages.whole.Load() != 0 {
		t.Error("all claims were asked for at once")
	}
	if gone := *heard.Load(); len(gone) != 0 {
		t.Errorf("handlers hear that claims %v are gone, want none: those were gone when the list was there", gone)
	}
}

// newClaims installs Bursar's kinds and returns a client for claims.
func newClaims(t *testing.T, config *rest.Config) claimsAPI {
	t.Helper()
	extensions, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		if strings.HasPrefix(definition.Name, "resourceclaims.") {
			if _, err := extensions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var api claimsAPI
	await.NoError(t, time.Minute, func() error {
		if api.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return err
		}
		return api.List(t.Context(), &quotav1alpha1.ResourceClaimList{})
	})
	return api
}

type claimsAPI struct{ client.Client }

func (a claimsAPI) create(t *testing.T, name string) {
	t.Helper()
	if err := a.Create(t.Context(), &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: quotav1alpha1.ConsumerRef{Kind: "Project", Name: "acme"},
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: name},
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: "example.com/things", Amount: 1}},
		},
	}); err != nil {
		t.Fatal(err)
	}
}

func (a claimsAPI) delete(t *testing.T, name string) {
	t.Helper()
	if err := a.Delete(t.Context(), &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// touch changes a label of a claim.
func (a claimsAPI) touch(t *testing.T, name string, version int64) {
	t.Helper()
	claim := &quotav1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"version":"%d"}}}`, version))
	if err := a.Patch(t.Context(), claim, patch); err != nil {
		t.Fatal(err)
	}
}

// compare returns the differences between a cache and the stored claims.
func (a claimsAPI) compare(t *testing.T, claims *claimcache.Cache) error {
	t.Helper()
	var list quotav1alpha1.ResourceClaimList
	if err := a.List(t.Context(), &list); err != nil {
		return err
	}
	want, got := map[string]string{}, map[string]string{}
	for _, claim := range list.Items {
		want[claim.Name] = string(claim.UID)
	}
	for _, claim := range claims.Select(func(*claimcache.Claim) bool { return true }) {
		got[claim.Name] = string(claim.UID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("claims (-want +got):\n%s", diff)
	}
	return nil
}

// compact has etcd forget all versions before the current one.
func compact(t *testing.T, server string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // it was only used to ask
	current, err := client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), current.Header.Revision); err != nil {
		t.Fatal(err)
	}
}
