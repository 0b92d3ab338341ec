package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/restore"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// TestRestoreOverwrites restores a backup into a server with a different limit, a registration with another owner in
// its labels, and a grant that the backup lacks. The first two become those of the backup, and the last stays.
func TestRestoreOverwrites(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	platform.DeclareMaps(t, from.Admin, 100)
	platform.DeclareMaps(t, to.Admin, 5)
	setOwner(t, from, "ann")
	setOwner(t, to, "tom")
	own := &quotav1alpha1.ResourceGrant{Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{ResourceType: platform.MapsType, Buckets: []quotav1alpha1.Bucket{{Amount: 3}}}},
	}}
	own.Name, own.Namespace = "own", "default"
	must(t, to.Admin.Create(t.Context(), own))

	path := filepath.Join(t.TempDir(), "quota")
	must(t, os.Mkdir(path, 0o700))
	discovered, objects := untyped(t, from)
	for range 2 { // the second one replaces the first
		_, err := backup.Write(t.Context(), backup.Options{Discovery: discovered, Dynamic: objects, Path: path, Version: "test"})
		must(t, err)
	}

	options := restore.Options{Config: to.Config, Path: path, Timeout: time.Minute}
	_, err := restore.Run(t.Context(), options)
	for _, part := range []string{"the server has quota of its own", "ResourceRegistration maps", "ResourceGrant default/acme", "ResourceGrant default/own", "--overwrite"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("a restore into a server with other quota: got %v, want %q", err, part)
		}
	}
	options.Overwrite, options.DryRun = true, true
	wantReplaced(t, options)
	wantLimits(t, to, map[string]int64{"acme": 5, "own": 3})
	options.DryRun = false
	wantReplaced(t, options)
	wantLimits(t, to, map[string]int64{"acme": 100, "own": 3})
	registration := &quotav1alpha1.ResourceRegistration{}
	must(t, to.Admin.Get(t.Context(), client.ObjectKey{Name: "maps"}, registration))
	if got := registration.Labels["owner"]; got != "ann" {
		t.Errorf("the owner of the registration is %q, want ann", got)
	}
	eventually(t, func() error {
		shown, err := shownUse(t, to.Admin)
		if want := "0 of 103"; err == nil && shown["acme "+platform.MapsType] != want {
			err = errors.New("the limit is " + shown["acme "+platform.MapsType] + ", want " + want)
		}
		return err
	})
}

// setOwner sets a label of the registration of maps.
func setOwner(t *testing.T, s *server.Server, owner string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"owner":"`+owner+`"}}}`))
	must(t, s.Admin.Patch(t.Context(), &quotav1alpha1.ResourceRegistration{ObjectMeta: metav1.ObjectMeta{Name: "maps"}}, patch))
}

// wantReplaced restores, and expects one grant and one registration to be replaced.
func wantReplaced(t *testing.T, options restore.Options) {
	t.Helper()
	text := restored(t, options)
	for _, resource := range []string{"resourceregistrations", "resourcegrants"} {
		// In the backup, restored, there before, replaced, left out.
		if !regexp.MustCompile(resource + `\S* +1 +0 +0 +1 +0`).MatchString(text) {
			t.Errorf("the report is\n%s", text)
		}
	}
}

// TestRestoreSparesOtherRequests restores an approved request into a server with another request of the same name. It
// changes nothing. In a dry run it changes nothing of the same request, either.
func TestRestoreSparesOtherRequests(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	for _, s := range []*server.Server{from, to} {
		platform.DeclareMaps(t, s.Admin, 100)
	}
	decide(t, from, askFor(t, from, "more", "tom", 900), quotav1alpha1.DecisionApprove)
	options := restore.Options{Config: to.Config, Path: backUp(t, from), Timeout: time.Minute}

	other := askFor(t, to, "more", "jane", 5)
	wantPending(t, to, "jane")
	for _, options.DryRun = range []bool{true, false} {
		_, err := restore.Run(t.Context(), options)
		for _, part := range []string{"other objects of the same names: QuotaRequest bursar-system/more", "nothing was changed"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("beside another request got %v, want %q", err, part)
			}
		}
		wantPending(t, to, "jane")
	}
	must(t, to.Admin.Delete(t.Context(), other))
	eventually(t, func() error {
		if err := to.Admin.Get(t.Context(), client.ObjectKeyFromObject(other), other); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v, want the request to go", err)
		}
		return nil
	})
	askFor(t, to, "more", "tom", 900)
	wantPending(t, to, "tom")
	options.DryRun = true
	text := restored(t, options)
	for _, row := range []string{`quotarequests\S* +1 +0 +1 +0 +0`, `quotadecisions\S* +1 +1 +0 +0 +0`} {
		if !regexp.MustCompile(row).MatchString(text) {
			t.Errorf("the report of a dry run is\n%s", text)
		}
	}
	wantPending(t, to, "tom")
	options.DryRun = false
	restored(t, options)
	w := &world{T: t, ctx: t.Context(), name: "acme"}
	if diff := cmp.Diff(requestsOf(w, from), requestsOf(w, to)); diff != "" {
		t.Errorf("the requests differ (-first +other):\n%s", diff)
	}
}

// wantPending waits until the only request of a server is that of a user, and without a decision.
func wantPending(t *testing.T, s *server.Server, user string) {
	t.Helper()
	eventually(t, func() error {
		w := &world{T: t, ctx: t.Context()}
		want := []string{"more asked by " + user + ": Pending, 0 decisions"}
		if diff := cmp.Diff(want, requestsOf(w, s)); diff != "" {
			return fmt.Errorf("the requests (-want +got):\n%s", diff)
		}
		return nil
	})
}

// wantLimits compares the amounts of the grants in the namespace default.
func wantLimits(t *testing.T, s *server.Server, want map[string]int64) {
	t.Helper()
	var grants quotav1alpha1.ResourceGrantList
	must(t, s.Admin.List(t.Context(), &grants, client.InNamespace("default")))
	got := map[string]int64{}
	for i := range grants.Items {
		got[grants.Items[i].Name] = grants.Items[i].Spec.Allowances[0].Buckets[0].Amount
	}
	if !maps.Equal(got, want) {
		t.Errorf("the limits differ (-want +got):\n%s", cmp.Diff(want, got))
	}
}
