// Package replicas tests several processes of the operator on one API server, behind one address.
package replicas

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controlplane"
	"github.com/bursar/bursar/internal/controlplane/controlplanetest"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/quiet"
	"github.com/bursar/bursar/test/replica"
)

const (
	resourceType = "platform.example.com/maps"
	// soon is longer than it takes until a reservation is given up whose object never came.
	soon = 100 * time.Second
)

func TestMain(m *testing.M) {
	quiet.Libraries()
	os.Exit(m.Run())
}

// cluster is an API server with replicas of the operator.
type cluster struct {
	*testing.T
	client.Client
	// config reaches the API server as somebody whom Bursar is asked about.
	config   *rest.Config
	plane    *controlplane.ControlPlane
	balancer *replica.Balancer
	replicas []*replica.Replica
}

func newCluster(t *testing.T, replicas int) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	c := &cluster{T: t, plane: controlplanetest.Start(t)}
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
	// What the operator's own user asks for is not asked about.
	user.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters"}}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types), quotav1alpha1.AddToScheme(types)); err != nil {
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

// startWith starts a replica that reaches the API server as a kubeconfig says.
func (c *cluster) startWith(kubeconfig string) *replica.Replica {
	c.Helper()
	r := replica.Run(c, c.balancer, kubeconfig, "")
	c.replicas = append(c.replicas, r)
	return r
}

// leader returns the replica that was the last to lead.
func (c *cluster) leader() *replica.Replica {
	c.Helper()
	return replica.Leader(c, c.replicas)
}

func (c *cluster) create(objects ...client.Object) {
	c.Helper()
	for _, object := range objects {
		if err := c.Create(c.Context(), object); err != nil {
			c.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// eventually waits until check returns nil.
func (c *cluster) eventually(check func() error) {
	c.Helper()
	await.NoError(c.T, soon, check)
}

// protect gives Organization acme so many ConfigMaps of namespace default.
func (c *cluster) protect(amount int64) {
	c.Helper()
	if err := platform.Install(c.Context(), c); err != nil {
		c.Fatal(err)
	}
	policy := &quotav1alpha1.ClaimCreationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "maps"}, Spec: quotav1alpha1.ClaimCreationPolicySpec{
		Trigger: quotav1alpha1.ClaimTrigger{
			Resource:   quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "ConfigMap"},
			Conditions: []quotav1alpha1.ConditionExpression{{Expression: `object.metadata.name.startsWith("map-")`}},
		},
		Target: quotav1alpha1.ClaimTarget{ResourceClaimTemplate: quotav1alpha1.ResourceClaimTemplate{
			Spec: quotav1alpha1.ResourceClaimTemplateSpec{
				ConsumerRef: platform.Consumer("acme"), Requests: []quotav1alpha1.ResourceRequestTemplate{{ResourceType: resourceType, Amount: 1}},
			},
		}},
	}}
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "acme", Namespace: "default"}, Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}}}},
	}}
	c.create(&quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "maps"}, Spec: quotav1alpha1.ResourceRegistrationSpec{
		ResourceType: resourceType, Type: quotav1alpha1.RegistrationTypeEntity, ConsumerTypeRef: platform.ConsumerType(),
		BaseUnit: "map", DisplayUnit: "map", UnitConversionFactor: 1, ClaimingResources: []quotav1alpha1.ClaimingResource{{Kind: "ConfigMap"}},
	}}, grant, policy)
	for object, condition := range map[client.Object]string{grant: quotav1alpha1.ConditionActive, policy: quotav1alpha1.ConditionReady} {
		c.eventually(func() error {
			if err := c.Get(c.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			var conditions []metav1.Condition
			switch o := object.(type) {
			case *quotav1alpha1.ResourceGrant:
				conditions = o.Status.Conditions
			case *quotav1alpha1.ClaimCreationPolicy:
				conditions = o.Status.Conditions
			}
			for _, have := range conditions {
				if have.Type == condition && have.Status == metav1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("%T is not %s: %+v", object, condition, conditions)
		})
	}
}

func configMap(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", n), Namespace: "default"}}
}
