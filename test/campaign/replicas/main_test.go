// Package replicas tests several processes of the operator on one API server, behind one address.
package replicas

import (
	"errors"
	"os"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/standalone/apiserver"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/controlplane"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
	"github.com/bursar/bursar/test/replica"
)

// soon is longer than the time until Bursar cancels a reservation without an object.
const soon = 3 * time.Minute

func TestMain(m *testing.M) {
	quiet.Libraries()
	process.Parallel(3)
	os.Exit(m.Run())
}

// cluster is an API server with replicas of the operator.
type cluster struct {
	*testing.T
	client.Client
	// config reaches the API server as a user whose requests the API server asks Bursar about.
	config   *rest.Config
	plane    *apiserver.ControlPlane
	balancer *replica.Balancer
	replicas []*replica.Replica
	// limit is how many ConfigMaps Organization acme may have.
	limit int64
}

func newCluster(t *testing.T, replicas int) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	c := &cluster{T: t, plane: controlplane.Start(t)}
	var err error
	if c.balancer, err = replica.NewBalancer(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.balancer.Close)
	user, err := clientcmd.BuildConfigFromFlags("", c.plane.AdminKubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	user.QPS = -1
	// The API server does not ask about the requests of the operator's own user.
	user.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters"}}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	c.config = user
	if c.Client, err = client.New(user, client.Options{Scheme: types}); err != nil {
		t.Fatal(err)
	}
	for range replicas {
		c.start()
	}
	for _, r := range c.replicas {
		r.WaitReady(t)
	}
	return c
}

// start starts a replica, with short times for the election of a leader.
func (c *cluster) start() *replica.Replica {
	c.Helper()
	return c.startWith(c.plane.AdminKubeconfigPath())
}

// startWith starts a replica with a kubeconfig for the API server.
func (c *cluster) startWith(kubeconfig string) *replica.Replica {
	c.Helper()
	r := replica.Run(c, c.balancer, kubeconfig, "")
	c.replicas = append(c.replicas, r)
	return r
}

// leader returns the latest leader.
func (c *cluster) leader() *replica.Replica {
	c.Helper()
	return replica.Leader(c, c.replicas)
}

// eventually waits until check returns nil.
func (c *cluster) eventually(check func() error) {
	c.Helper()
	await.NoError(c.T, soon, check)
}

// protect gives Organization acme so many ConfigMaps.
func (c *cluster) protect(amount int64) {
	c.Helper()
	c.limit = amount
	platform.DeclareMaps(c.T, c, amount)
	platform.ProtectMaps(c.T, c, "ConfigMap")
}
