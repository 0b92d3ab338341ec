package events_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bursar/bursar/internal/kube/events"
)

// stored returns an API server with ConfigMaps.
func stored(objects ...client.Object) client.Client {
	return ctrlfake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.ConfigMap{}, "metadata.name", func(object client.Object) []string { return []string{object.GetName()} }).Build()
}

// regarding returns a reference to a ConfigMap.
func regarding(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// An event has the UID of its object, by which kubectl describe finds it, and is also written without the object.
func TestLatestFindsUIDs(t *testing.T) {
	api := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		live := stored(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "web-cpu", UID: "the-uid"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "other", UID: "other-uid"}},
		)
		latest := &events.Latest{Events: api.CoreV1(), Live: live, Log: logr.Discard()}
		go func() { _ = latest.Run(t.Context()) }()
		latest.Record(regarding("project-web", "web-cpu"), "QuotaDenied", "denied")
		latest.Record(regarding("project-web", "missing"), "QuotaDenied", "denied")
		latest.Record(regarding("project-web", "later"), "QuotaDenied", "denied")
		latest.Record(regarding("project-web", "later"), "QuotaDenied", "denied")
		time.Sleep(3 * time.Second)
		later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "project-web", Name: "later", UID: "later-uid"}}
		if err := live.Create(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		list, err := api.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]types.UID{}
		for i := range list.Items {
			got[list.Items[i].InvolvedObject.Name] = list.Items[i].InvolvedObject.UID
		}
		if diff := cmp.Diff(map[string]types.UID{"web-cpu": "the-uid", "later": "later-uid", "missing": ""}, got); diff != "" {
			t.Errorf("UIDs of the objects of events (-want +got):\n%s", diff)
		}
	})
}

// A storm costs one event and a write in ten seconds, and the event has the latest note.
func TestLatestIsBounded(t *testing.T) {
	const storm, minute, writesMax = 60_000, time.Minute, 7
	api := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		latest := &events.Latest{Events: api.CoreV1(), Live: stored(), Log: logr.Discard()}
		go func() { _ = latest.Run(t.Context()) }()
		denied := regarding("project-web", "web-cpu")
		for n := 1; n <= storm; n++ {
			latest.Record(denied, "QuotaDenied", fmt.Sprintf("denied, used: %d", n))
			time.Sleep(minute / storm)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		list, err := api.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 {
			t.Fatalf("there are %d events on %d denials, want one", len(list.Items), storm)
		}
		got := list.Items[0]
		if want := fmt.Sprintf("denied, used: %d", storm); got.Message != want || got.Count != storm || got.Namespace != "project-web" {
			t.Errorf("got %q, %d times in namespace %s, want %q, %d times in project-web", got.Message, got.Count, got.Namespace, want, storm)
		}
	})
	writes := 0
	for _, action := range api.Actions() {
		if action.GetVerb() != "list" {
			writes++
		}
	}
	if writes > writesMax+1 {
		t.Errorf("%d denials in %s cost %d writes, want at most %d", storm, minute, writes, writesMax+1)
	}
	t.Logf("%d denials in %s: 1 event, %d writes", storm, minute, writes)
}
