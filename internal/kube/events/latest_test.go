package events_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bursar/bursar/internal/kube/events"
)

// A storm costs one event and a write in ten seconds, and the event has the latest note.
func TestLatestIsBounded(t *testing.T) {
	const storm, minute, writesMax = 60_000, time.Minute, 7
	api := fake.NewClientset()
	synctest.Test(t, func(t *testing.T) {
		latest := &events.Latest{Events: api.CoreV1(), Log: logr.Discard()}
		go func() { _ = latest.Run(t.Context()) }()
		regarding := &corev1.ObjectReference{Kind: "EffectiveResourceGrant", Namespace: "project-web", Name: "web-cpu"}
		for n := 1; n <= storm; n++ {
			latest.Record(regarding, "QuotaDenied", fmt.Sprintf("denied, used: %d", n))
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
