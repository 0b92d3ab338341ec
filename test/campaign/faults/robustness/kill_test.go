// Package robustness kills a real standalone process again and again under load. Then it holds the stored objects
// against Bursar's promises.
package robustness

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

const (
	resourceType = "robustness/configmaps"
	space        = "robustness"
	kills        = 6
	// checkEvery is the number of kills between two looks at the ledgers. A look waits until Bursar has canceled the
	// reservations of cut-off creates.
	checkEvery = 3
	// creators create and delete objects, and claimers claims of their own.
	creators = 6
	claimers = 2
	// objectsMax is how many objects there may be.
	objectsMax = 30
)

// limits are the limits of the consumers. Two policies charge each object to both; claims created directly charge acme.
var limits = map[string]int64{"acme": 40, "shared": objectsMax}

// TestKillUnderLoad kills the server while clients create and delete at the limits. Afterwards each policy charges
// every existing object exactly once, and nothing else. Every acknowledged object is still there.
func TestKillUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	dir := t.TempDir()
	server := process.Start(t, dir, briefRequests...)
	setUp(t, connect(t, server))
	for round := range kills {
		load := startLoad(t, server, round)
		load.waitBusy(t)
		server.Kill()
		acknowledged := load.stop()
		var api client.Client
		server, api = restart(t, dir)
		checkAcknowledged(t, api, acknowledged)
		if round%checkEvery == checkEvery-1 {
			checkLedgers(t, api)
		}
		// The next round starts with room for everyone.
		if err := errors.Join(
			api.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(space)),
			api.DeleteAllOf(t.Context(), &quotav1alpha1.ResourceClaim{}, client.InNamespace(space), direct),
		); err != nil {
			t.Fatal(err)
		}
	}
	checkLedgers(t, connect(t, server))
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, server.Output())
	}
	server, _ = restart(t, dir)
	checkLedgers(t, connect(t, server))
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d after SIGTERM:\n%s", code, server.Output())
	}
}

func connect(t *testing.T, server *process.Server) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), quotav1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(server.Config(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// eventually waits until check returns nil. The bound leaves room for the reservations of objects that never appeared.
// Bursar cancels those after 25 s at the earliest.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.NoError(t, 3*time.Minute, check)
}
