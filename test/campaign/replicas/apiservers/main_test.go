// Package apiservers tests several processes of `bursar standalone` on one etcd.
package apiservers

import (
	"errors"
	"os"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
)

// soon is longer than the time until Bursar cancels a reservation without an object, and forgets its record.
const soon = 3 * time.Minute

func TestMain(m *testing.M) {
	quiet.Libraries()
	process.Parallel(3)
	os.Exit(m.Run())
}

// server is one of several.
type server struct {
	*process.Server
	client.Client
	dir string
}

// start starts a server on an etcd and a data directory, and waits until it is ready.
func start(t *testing.T, etcd, dir string) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	s := &server{Server: process.Start(t, dir, "--etcd-servers", etcd, "--request-timeout", process.RequestTimeout.String()), dir: dir}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Client, err = client.New(s.Config(), client.Options{Scheme: types}); err != nil {
		t.Fatal(err)
	}
	return s
}

// wantMaps waits until objects, claims, the ledger and the bucket agree, and returns how many objects there are.
func wantMaps(t *testing.T, api client.Client, limit int64) (objects int64) {
	t.Helper()
	eventually(t, func() (err error) {
		objects, err = kit.CheckMaps(t.Context(), api, limit)
		return err
	})
	return objects
}

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.NoError(t, soon, check)
}
