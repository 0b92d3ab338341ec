// Package kubernetes tests the operator on the real Kubernetes control plane: its API server with the
// admission plugins, validation and subresources of core kinds, and its controllers as clients.
package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/campaign/kubernetes/cluster"
	"github.com/bursar/bursar/test/helm"
	"github.com/bursar/bursar/test/kit"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
	"github.com/bursar/bursar/test/quiet"
	operator "github.com/bursar/bursar/test/replica"
)

const (
	system  = "quota"
	pods    = "platform.example.com/pods"
	memory  = "platform.example.com/memory"
	storage = "platform.example.com/storage"
	replica = "platform.example.com/replicas"

	mebibyte = 1 << 20
	gibibyte = 1 << 30

	// soon is longer than the time until Bursar cancels a reservation without an object, on a busy machine.
	soon = 3 * time.Minute
)

func TestMain(m *testing.M) {
	quiet.Libraries()
	process.Parallel(16)
	os.Exit(m.Run())
}

// tests run with a team each. The table of tested versions has the statements they prove.
var tests = map[string]struct {
	proves string
	run    func(*team)
}{
	"Pods":              {"every Pod costs quota, from any creator", testPods},
	"TerminatingPod":    {"a terminating Pod holds its charge until its kubelet has stopped it", testTerminatingPod},
	"Resize":            {"a resize of a running Pod stays within the quota", testResize},
	"ReplicaSet":        {"a Deployment gets as many Pods as fit, and the rest once there is room", testReplicaSet},
	"Rollout":           {"a Deployment at the limit completes a rollout", testRollout},
	"Job":               {"a Job at the limit completes", testJob},
	"Scale":             {"a Deployment scales within the quota, as under an autoscaler", testScale},
	"Volumes":           {"PersistentVolumeClaims appear and grow within the quota", testVolumes},
	"Kubectl":           {"kubectl applies, scales, runs and shows the denial", testKubectl},
	"Plugin":            {"the plugin of kubectl shows and explains quota", testPlugin},
	"Namespace":         {"a deleted namespace releases all its quota", testNamespace},
	"QuotaIsTighter":    {"a tighter core ResourceQuota leaves no charge behind", testQuotaIsTighter},
	"BursarIsTighter":   {"a wider core ResourceQuota counts the objects admitted by Bursar", testBursarIsTighter},
	"ChurnInTightQuota": {"Pods come and go at the limit of a core ResourceQuota", testChurnInTightQuota},
	"ChurnInQuota":      {"Pods come and go at the limit of Bursar beside a core ResourceQuota", testChurnInQuota},
	"Allocation":        {"a ResourceQuotaAllocation caps the ResourceQuotas of namespaces", testAllocation},
	"Increase":          {"a QuotaServiceConfig gives a ResourceQuota, and a QuotaIncrease raises it", testIncrease},
	"Chart":             {"the chart installs in a restricted namespace", testChart},
	"Compute":           {"a service claims quota itself", testCompute},
	"Example":           {"the example for the kinds of Kubernetes works as in its README", testExample},
	"FirstHour":         {"the tutorial for a cluster works as written", testFirstHour},
	"Lives":             {"objects count and are denied as by a core ResourceQuota, at every step of their lives", testLives},
	"Aggregated":        {"Bursar protects the kinds of an aggregated API server", testAggregated},
}

// TestKubernetes runs all tests beside each other in one cluster, each in a namespace and with a consumer of
// its own.
func TestKubernetes(t *testing.T) {
	w := newWorld(t)
	w.startReplica(t)
	w.setUp(t)
	t.Run("group", func(t *testing.T) {
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				t.Attr("proves", tt.proves)
				tt.run(w.newTeam(t, "team-"+strings.ToLower(name)))
			})
		}
	})
	w.wantNothingForbidden(t)
}

// world is a cluster with the chart installed, and replicas of the operator beside it, since there are no nodes. They
// are the chart's ServiceAccount, so they have the chart's permissions and no others.
type world struct {
	*cluster.Cluster
	client.Client
	// webhooks stands for the Service of the chart.
	webhooks *operator.Balancer
	// kubeconfig is how replicas reach the API server.
	kubeconfig string
	// binary is the operator for the next start.
	binary string
	// callers are the accepted certificates of API servers. Without them, the paths of the webhooks are the proof.
	callers  *config.ClientCertificates
	replicas []*operator.Replica
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldBehind(t, newBalancer(t))
}

// newWorldBehind is newWorld with the Service of the webhooks, and more flags of the API server.
func newWorldBehind(t *testing.T, webhooks *operator.Balancer, flags ...string) *world {
	t.Helper()
	binary, err := process.BuildOperator()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: cluster.Start(t, flags...), webhooks: webhooks, binary: binary}
	w.StartControllers("serviceaccount-controller", "namespace-controller", "garbage-collector-controller",
		"deployment-controller", "replicaset-controller", "job-controller", "resourcequota-controller",
		"clusterrole-aggregation-controller")
	w.Client = newClient(t, w.Servers[0])
	w.install(t)
	w.kubeconfig = w.Servers[0].ServiceAccountKubeconfig(system, "bursar")
	return w
}

func newBalancer(t *testing.T) *operator.Balancer {
	t.Helper()
	balancer, err := operator.NewBalancer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(balancer.Close)
	return balancer
}

// newClient returns a client that sends requests again as the controllers of Kubernetes do.
func newClient(t *testing.T, server *cluster.APIServer) client.Client {
	t.Helper()
	return patient(t, newPlainClient(t, server))
}

// newPlainClient returns a client that sends each request once.
func newPlainClient(t *testing.T, server *cluster.APIServer) client.WithWatch {
	t.Helper()
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), quotav1alpha1.AddToScheme(types), openmcpv1alpha1.AddToScheme(types), computev1alpha1.AddToScheme(types)); err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(server.Config(), client.Options{Scheme: types})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// startReplica starts a replica and waits until it is ready.
func (w *world) startReplica(t *testing.T) *operator.Replica {
	t.Helper()
	r := operator.RunBinary(t, w.binary, w.webhooks, w.kubeconfig, config.Operator{
		Quota: config.Quota{
			SystemNamespace:    system,
			ConsumerNamespaces: []config.ConsumerNamespace{{APIGroup: "hosting.example.com", Kind: "Project", Namespace: "{{name}}"}},
		},
		Webhooks: config.Webhooks{ClientCertificates: w.callers},
	})
	w.replicas = append(w.replicas, r)
	r.WaitReady(t)
	return r
}

// setUp registers the resource types, and makes the policies effective.
func (w *world) setUp(t *testing.T) {
	t.Helper()
	w.kubectl(t, "", "apply", "--server-side", "--filename", filepath.Join("testdata", "platform.yaml"))
	w.kubectl(t, "", "wait", "--for=condition=Ready", "--timeout=1m", "claimcreationpolicies", "--all")
}

// wantNothingForbidden checks that the chart has all permissions used by the operator.
func (w *world) wantNothingForbidden(t *testing.T) {
	t.Helper()
	for _, r := range w.replicas {
		if output := r.Output(t); strings.Contains(output, "forbidden: User") {
			t.Errorf("the operator was forbidden something:\n%s", output)
		}
	}
}

// install installs the chart, in a namespace with the strictest rules of Kubernetes for Pods.
func (w *world) install(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	if err := w.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	values := `follows: [{apiGroup: "", resources: [pods, persistentvolumeclaims]}, {apiGroup: apps, resources: [deployments]}, {apiGroup: wardle.example.com, resources: [flunders]}]`
	rendered, err := helm.Run(t, values, "template", "bursar", filepath.Join("..", "..", "..", "deploy", "chart", "bursar"),
		"--namespace", system, "--kube-version", w.version(t))
	if err != nil {
		t.Fatal(err)
	}
	w.kubectl(t, rendered, "apply", "--server-side", "--namespace", system, "--filename", "-")
}

// version returns the version reported by the API server.
func (w *world) version(t *testing.T) string {
	t.Helper()
	server, err := discovery.NewDiscoveryClientForConfigOrDie(w.Servers[0].Config()).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return server.GitVersion
}

// serves reports whether the API server has a resource, such as pods/resize of v1.
func (w *world) serves(t *testing.T, version, resource string) bool {
	t.Helper()
	list, err := discovery.NewDiscoveryClientForConfigOrDie(w.Servers[0].Config()).ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}

// kubectl runs kubectl and returns its output. The run has to succeed.
func (w *world) kubectl(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	stdout, stderr, code := w.Kubectl(input, arguments...)
	if code != 0 {
		t.Fatalf("kubectl %s: exit code %d: %s", strings.Join(arguments, " "), code, stderr)
	}
	return stdout
}

// team is a namespace. Bursar charges its objects to the Organization with the same name.
type team struct {
	*testing.T
	*world
	name string
	// granted is the latest grant of the team.
	granted kit.Amounts
}

func (w *world) newTeam(t *testing.T, name string) *team {
	t.Helper()
	n := &team{T: t, world: w, name: name}
	n.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return n
}

func (n *team) create(objects ...client.Object) {
	n.Helper()
	for _, object := range objects {
		if err := n.Create(n.Context(), object); err != nil {
			n.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// createSoon creates an object after another has gone or a quota has grown. The create succeeds once Bursar has seen
// this.
func (n *team) createSoon(object client.Object) {
	n.Helper()
	n.eventually(func() error { return n.Create(n.Context(), object) })
}

// grant gives the team amounts by resource type, and waits until it has them.
func (n *team) grant(amounts map[string]int64) {
	n.Helper()
	grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: n.name, Namespace: n.name},
		Spec: quotav1alpha1.ResourceGrantSpec{ConsumerRef: platform.Consumer(n.name)}}
	for resourceType, amount := range amounts {
		grant.Spec.Allowances = append(grant.Spec.Allowances, quotav1alpha1.Allowance{
			ResourceType: resourceType, Buckets: []quotav1alpha1.Bucket{{Amount: amount}},
		})
	}
	n.create(grant)
	n.granted = amounts
	for resourceType, amount := range amounts {
		n.wantLimit(resourceType, amount)
	}
}

// bucket returns the status of the team's bucket of a resource type, or an empty one without a bucket.
func (n *team) bucket(resourceType string) quotav1alpha1.AllowanceBucketStatus {
	n.Helper()
	var buckets quotav1alpha1.AllowanceBucketList
	err := n.List(n.Context(), &buckets, client.MatchingFields{"spec.consumerRef.name": n.name, "spec.resourceType": resourceType})
	if err != nil || len(buckets.Items) > 1 {
		n.Fatalf("buckets of %s: %v, %+v", resourceType, err, buckets.Items)
	}
	if len(buckets.Items) == 0 {
		return quotav1alpha1.AllowanceBucketStatus{}
	}
	return buckets.Items[0].Status
}

// wantAllocated waits until the ledgers have the amount, and every claim in the namespace is granted.
func (n *team) wantAllocated(resourceType string, amount int64, claims int32) {
	n.Helper()
	n.eventually(func() error {
		if got := n.bucket(resourceType); got.Allocated != amount || got.ClaimCount != claims {
			return fmt.Errorf("%s: %d allocated to %d claims, want %d to %d", resourceType, got.Allocated, got.ClaimCount, amount, claims)
		}
		var list quotav1alpha1.ResourceClaimList
		if err := n.List(n.Context(), &list, client.InNamespace(n.name)); err != nil {
			return err
		}
		var sum int64
		var count int32
		for _, claim := range list.Items {
			for _, request := range claim.Spec.Requests {
				if request.ResourceType == resourceType {
					sum += request.Amount
					count++
				}
			}
		}
		if sum != amount || count != claims {
			return fmt.Errorf("%d claims ask for %d of %s, want %d for %d", count, sum, resourceType, claims, amount)
		}
		return nil
	})
}

// creating is a request that creates an object.
func (n *team) creating(object client.Object) func() error {
	return func() error { return n.Create(n.Context(), object) }
}

// wantExceeded checks that a request gets the denial that people get. A denial has no figures if Bursar does not learn
// in time that the user may see them, so wantExceeded requests again.
func (n *team) wantExceeded(request func() error, what, requested, used, limited string) {
	n.Helper()
	var err error
	n.eventually(func() error {
		if err = request(); err != nil && strings.Contains(err.Error(), "does not allow it") {
			return err
		}
		return nil
	})
	want := fmt.Sprintf(`exceeded quota: %s quota of Organization %s, requested: %s( \([^()]+ in total\))?, used: %s, limited: %s`,
		regexp.QuoteMeta(what), n.name, requested, used, limited)
	if !apierrors.IsForbidden(err) || !regexp.MustCompile(want).MatchString(err.Error()) {
		n.Errorf("got %v, want Forbidden with %q", err, want)
	}
}

func (n *team) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// eventually waits until check returns nil.
func (n *team) eventually(check func() error) {
	n.Helper()
	await.NoError(n.T, soon, check)
}

// pod is a Pod with a request of so many MiB.
func (n *team) pod(name string, memory int64) *corev1.Pod {
	amount := *resource.NewQuantity(memory*mebibyte, resource.BinarySI)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "web",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: amount}},
		}}},
	}
}
