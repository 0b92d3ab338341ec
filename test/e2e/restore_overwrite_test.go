package e2e

import (
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/restore"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// TestRestoreOverwrites restores a backup into a server with a different limit and with a grant that the backup lacks.
// The first becomes that of the backup, and the second stays.
func TestRestoreOverwrites(t *testing.T) {
	t.Parallel()
	from, to := startTwo(t)
	platform.DeclareMaps(t, from.Admin, 100)
	platform.DeclareMaps(t, to.Admin, 5)
	own := &quotav1alpha1.ResourceGrant{Spec: quotav1alpha1.ResourceGrantSpec{
		ConsumerRef: platform.Consumer("acme"), Allowances: []quotav1alpha1.Allowance{{ResourceType: platform.MapsType, Buckets: []quotav1alpha1.Bucket{{Amount: 3}}}},
	}}
	own.Name, own.Namespace = "own", "default"
	must(t, to.Admin.Create(t.Context(), own))

	path := filepath.Join(t.TempDir(), "quota")
	discovered, objects := untyped(t, from)
	_, err := backup.Write(t.Context(), backup.Options{Discovery: discovered, Dynamic: objects, Path: path, Version: "test"})
	must(t, err)

	options := restore.Options{Config: to.Config, Path: path, Timeout: time.Minute}
	_, err = restore.Run(t.Context(), options)
	for _, part := range []string{"the server has quota of its own", "ResourceGrant default/acme", "ResourceGrant default/own", "--overwrite"} {
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
	eventually(t, func() error {
		shown, err := shownUse(t, to.Admin)
		if want := "0 of 103"; err == nil && shown["acme "+platform.MapsType] != want {
			err = errors.New("the limit is " + shown["acme "+platform.MapsType] + ", want " + want)
		}
		return err
	})
}

// wantReplaced restores, and expects one grant to be replaced.
func wantReplaced(t *testing.T, options restore.Options) {
	t.Helper()
	report, err := restore.Run(t.Context(), options)
	must(t, err)
	var text strings.Builder
	must(t, report.Print(&text, ""))
	// In the backup, restored, there before, replaced, left out.
	if !regexp.MustCompile(`resourcegrants\S* +1 +0 +0 +1 +0`).MatchString(text.String()) {
		t.Errorf("the report is\n%s", &text)
	}
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
