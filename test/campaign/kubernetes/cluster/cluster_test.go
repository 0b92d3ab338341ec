package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/bursar/bursar/test/campaign/kubernetes/cluster"
)

// TestClusterOutlivesItsProcesses looks for the objects of the first API server in another one, also after the death of
// both and of etcd.
func TestClusterOutlivesItsProcesses(t *testing.T) {
	c := cluster.Start(t)
	c.StartControllers("serviceaccount-controller")
	c.StartAPIServer()
	for _, arguments := range []string{"wait --for=create serviceaccount/default --timeout=1m", "run web --image=web"} {
		if _, stderr, code := c.Kubectl("", strings.Fields(arguments)...); code != 0 {
			t.Fatalf("kubectl %s: exit code %d, %s", arguments, code, stderr)
		}
	}
	wantPod := func(s *cluster.APIServer) {
		t.Helper()
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		var last error
		err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			_, last = client.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
			return last == nil, nil
		})
		if err != nil {
			t.Error(last)
		}
	}
	wantPod(c.Servers[1])
	c.Etcd.Kill()
	c.Servers[0].Kill()
	c.Etcd.Start()
	c.Etcd.WaitReady()
	wantPod(c.Servers[1])
	c.Servers[0].Start()
	c.Servers[0].WaitReady()
	wantPod(c.Servers[0])
}
