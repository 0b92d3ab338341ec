package kubernetes

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/uninstall"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/test/platform"
)

// TestUninstall restores a grant from a backup, and then removes Bursar beside device claims of Kubernetes. They stay
// where Kubernetes has them.
// BURSAR_UNINSTALL_CLAIMS is the number of claims.
func TestUninstall(t *testing.T) {
	t.Attr("proves", "bursar uninstall removes Bursar and nothing else")
	claims := 1000
	if asked := os.Getenv("BURSAR_UNINSTALL_CLAIMS"); asked != "" {
		var err error
		if claims, err = strconv.Atoi(asked); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	replica := w.startReplica(t)
	w.setUp(t)
	n := w.newTeam(t, "team-uninstall")
	n.grant(map[string]int64{pods: 2, memory: 1000 * mebibyte})
	hasDevices := n.serves(t, devices, "resourceclaims")
	if hasDevices {
		n.create(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "device", Namespace: n.name}})
	}
	n.create(n.pod("web", 10))
	n.wantAllocated(pods, 1, 1)
	admin := w.Servers[0].Config()
	n.losesGrant(admin)
	n.wantAllocated(pods, 1, 1)

	n.uninstallFails(admin, uninstall.Options{Purge: true}, "an operator of Bursar still runs (it renews Lease bursar-")
	n.wantExceeded(n.creating(n.pod("large", 2000)), memory, "2000 MiB", "10", "1000")
	replica.Signal(syscall.SIGTERM)
	<-replica.Ended()
	viewer := rest.CopyConfig(admin)
	viewer.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:authenticated"}}
	n.uninstallFails(viewer, uninstall.Options{Purge: true}, "you may not list leases.coordination.k8s.io, get customresourcedefinitions.apiextensions.k8s.io")
	n.uninstallFails(admin, uninstall.Options{SystemNamespace: "other"}, "the namespace of Bursar is quota and not other: add --system-namespace quota")

	said := n.uninstall(admin, uninstall.Options{Purge: true, DryRun: true})
	for _, want := range []string{"would delete ValidatingWebhookConfiguration bursar", "would delete 1 resourceclaims.quota.miloapis.com", "nothing was changed"} {
		if !strings.Contains(said, want) {
			t.Errorf("a dry run says\n%s\nwant %q", said, want)
		}
	}
	if err := n.Create(n.Context(), n.pod("refused", 10)); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("after a dry run a create got %v, though nobody answers", err)
	}

	for range 2 {
		said = n.uninstall(admin, uninstall.Options{})
		if !strings.Contains(said, "\n  1 resourceclaims.quota.miloapis.com\n") {
			t.Errorf("it says\n%s\nwant the claim among what stays", said)
		}
	}
	n.eventually(func() error { return client.IgnoreAlreadyExists(n.Create(n.Context(), n.pod("free", 2000))) })
	for _, object := range n.claims() {
		if len(object.Finalizers) > 0 {
			t.Errorf("claim %s still has the finalizers %v", object.Name, object.Finalizers)
		}
	}

	began := time.Now()
	n.createClaims(claims)
	t.Logf("%d claims created in %s", claims, time.Since(began).Round(time.Millisecond))
	ctx, interrupt := context.WithCancel(t.Context())
	began = time.Now()
	_ = uninstall.Run(ctx, uninstall.Options{Config: admin, SystemNamespace: system, Purge: true, Program: "bursar", Out: writerFunc(interrupt)})
	said = n.uninstall(admin, uninstall.Options{Purge: true})
	t.Logf("%d claims in %s:\n%s", claims, time.Since(began).Round(time.Millisecond), said)
	if !strings.Contains(said, "namespace quota stays, because it holds configmaps/bursar-config, ") {
		t.Errorf("it says\n%s\nwant the objects of the chart to be kept, which its own tool removes", said)
	}
	said = n.uninstall(admin, uninstall.Options{Purge: true})
	if strings.Contains(said, "deleted") {
		t.Errorf("a second time it says\n%s\nwant nothing to be deleted", said)
	}
	if left := n.kubectl(t, "", "get", "customresourcedefinitions,validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "name"); left != "customresourcedefinition.apiextensions.k8s.io/organizations.platform.example.com\n" {
		t.Errorf("what is left is\n%s\nwant the kind of the platform alone", left)
	}
	if hasDevices {
		if got := n.kubectl(t, "", "get", "resourceclaims.resource.k8s.io", "-n", n.name, "-o", "name"); got != "resourceclaim.resource.k8s.io/device\n" {
			t.Errorf("of the device claims %q is left", got)
		}
	}
	n.must(n.Delete(n.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.name}}))
	n.eventually(func() error {
		if err := n.Get(n.Context(), client.ObjectKey{Name: n.name}, &corev1.Namespace{}); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the namespace of the team is still there: %v", err)
		}
		return nil
	})
}

// writerFunc calls a function with the first line.
type writerFunc func()

func (f writerFunc) Write(line []byte) (int, error) { f(); return len(line), nil }

// uninstall has to succeed, and returns its output.
func (n *team) uninstall(config *rest.Config, o uninstall.Options) string {
	n.Helper()
	var said strings.Builder
	o.Config, o.SystemNamespace, o.CertificateSecret, o.Out = config, system, naming.CertificateSecret, &said
	if err := uninstall.Run(n.Context(), o); err != nil {
		n.Fatalf("%v\n%s", err, said.String())
	}
	return said.String()
}

// uninstallFails checks that nothing begins, and why.
func (n *team) uninstallFails(config *rest.Config, o uninstall.Options, why string) {
	n.Helper()
	var said strings.Builder
	o.Config, o.Out = config, &said
	if o.SystemNamespace == "" {
		o.SystemNamespace = system
	}
	if err := uninstall.Run(n.Context(), o); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(said.String(), "delete") {
		n.Errorf("got %v, want %q\n%s", err, why, said.String())
	}
}

func (n *team) claims() []quotav1alpha1.ResourceClaim {
	n.Helper()
	var list quotav1alpha1.ResourceClaimList
	n.must(n.List(n.Context(), &list))
	return list.Items
}

// createClaims creates claims in the form of granted ones.
func (n *team) createClaims(count int) {
	n.Helper()
	failed := make(chan error, count)
	workqueue.ParallelizeUntil(n.Context(), 16, count, func(i int) {
		failed <- n.Create(n.Context(), &quotav1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", i), Namespace: n.name, Finalizers: []string{quotav1alpha1.FinalizerQuotaRelease}},
			Spec: quotav1alpha1.ResourceClaimSpec{ConsumerRef: platform.Consumer(n.name),
				Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: pods, Amount: 1}},
				ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "Pod", Name: "web", Namespace: n.name}},
		})
	})
	for range count {
		if err := <-failed; err != nil {
			n.Fatal(err)
		}
	}
}
