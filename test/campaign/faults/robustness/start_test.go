package robustness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

const (
	starts = 3
	// room is the free part of the limit when the test kills the server.
	room = 5
)

// TestEnforcedFromFirstRequest starts a server while clients already knock. An earlier policy binds them from the first
// answered request: the ledger charges every admitted create, and the server admits nobody beyond the limit. Until it
// is ready it may return errors for other reasons.
func TestEnforcedFromFirstRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	t.Parallel()
	dir := t.TempDir()
	server := process.Start(t, dir, briefRequests...)
	address := strings.TrimPrefix(server.Config().Host, "https://")
	setUp(t, connect(t, server))
	waitGranted(t, connect(t, server))
	for round := range starts {
		api := connect(t, server)
		for n := range objectsMax - room {
			if err := api.Create(t.Context(), configMap(fmt.Sprintf("before-%d-%d", round, n))); err != nil {
				t.Fatal(err)
			}
		}
		checkLedgers(t, api)
		server.Kill()
		knocks := startKnocking(t, server, round)
		server = process.Start(t, dir, append(briefRequests, "--listen", address)...)
		knocks.waitRefused(t)
		admitted := knocks.stop()
		t.Logf("unanswered %d, not ready %d, exceeded %d, admitted %d", knocks.unanswered, knocks.unready, knocks.exceeded, len(admitted))
		api = connect(t, server)
		checkJournal(t, api, dir)
		if len(admitted) != room {
			t.Errorf("%d creates were admitted, want %d: %v", len(admitted), room, admitted)
		}
		var existing corev1.ConfigMapList
		if err := api.List(t.Context(), &existing, client.InNamespace(space)); err != nil {
			t.Fatal(err)
		}
		if len(existing.Items) != objectsMax {
			t.Errorf("%d objects exist, want %d", len(existing.Items), objectsMax)
		}
		checkLedgers(t, api)
		if err := api.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(space)); err != nil {
			t.Fatal(err)
		}
		checkLedgers(t, api)
	}
}

// waitGranted waits until the limits count.
func waitGranted(t *testing.T, api client.Client) {
	t.Helper()
	eventually(t, func() error {
		var grants quotav1alpha1.ResourceGrantList
		if err := api.List(t.Context(), &grants, client.InNamespace(space)); err != nil {
			return err
		}
		for _, grant := range grants.Items {
			if !apimeta.IsStatusConditionTrue(grant.Status.Conditions, quotav1alpha1.ConditionActive) {
				return fmt.Errorf("the grant to %s is not active: %+v", grant.Name, grant.Status.Conditions)
			}
		}
		return nil
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: space}}
}

// knocks are attempts to create without pause, with or without a server that answers.
type knocks struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	// unanswered counts attempts that reached no server, unready the errors during the start, and exceeded the denials
	// for lack of quota.
	unanswered, unready, exceeded int
	admitted                      []string
}

func startKnocking(t *testing.T, server *process.Server, round int) *knocks {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := &knocks{cancel: cancel}
	for n := range creators {
		api, err := kubernetes.NewForConfig(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		k.group.Go(func() {
			for attempt := 0; ctx.Err() == nil; attempt++ {
				object := configMap(fmt.Sprintf("r%d-c%d-%d", round, n, attempt))
				_, err := api.CoreV1().ConfigMaps(space).Create(ctx, object, metav1.CreateOptions{})
				k.note(t, object.Name, err)
			}
		})
	}
	return k
}

func (k *knocks) note(t *testing.T, name string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		k.admitted = append(k.admitted, name)
	case platform.IsExceeded(err):
		k.exceeded++
	case !errors.As(err, &status):
		k.unanswered++
	case status.Status().Code >= 500, apierrors.IsTooManyRequests(err), strings.Contains(err.Error(), "not yet ready to handle request"):
		k.unready++
	default:
		t.Errorf("create: %v", err)
	}
}

// waitRefused waits for many denials at the limit.
func (k *knocks) waitRefused(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.exceeded < objectsMax {
			return fmt.Errorf("%d creates were admitted, %d exceeded the quota", len(k.admitted), k.exceeded)
		}
		return nil
	})
}

// stop returns the names of the admitted objects.
func (k *knocks) stop() []string {
	k.cancel()
	k.group.Wait()
	return k.admitted
}
