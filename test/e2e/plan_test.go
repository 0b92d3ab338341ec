package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/plan"
	"github.com/bursar/bursar/internal/usage"
)

// planned plans files as the administrator.
func (w *world) planned(files map[string]string, change func(*plan.Options)) *quotav1alpha1.QuotaReviewStatus {
	w.Helper()
	dir := w.TempDir()
	for name, content := range files {
		must(w, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	client, err := dynamic.NewForConfig(started.Config)
	must(w, err)
	options := plan.Options{API: admin, Dynamic: client, Namespace: w.name, Applied: resource.FilenameOptions{Filenames: []string{dir}}}
	if change != nil {
		change(&options)
	}
	status, err := plan.Review(w.ctx, options)
	must(w, err)
	return status
}

const twoMaps = `
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {generateName: b-}
`

func TestPlan(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 2)
	status := w.planned(map[string]string{"maps.yaml": twoMaps}, nil)
	w.wantResults(status, fits, fits)
	var printed strings.Builder
	must(t, plan.Print(&printed, status, ""))
	for _, part := range []string{"ConfigMap " + w.name + "/a", "+2 maps", "Everything fits."} {
		if !strings.Contains(printed.String(), part) {
			t.Errorf("the plan does not say %q:\n%s", part, &printed)
		}
	}
	w.mustCreate(w.configMap("c"))
	status = w.planned(map[string]string{"maps.yaml": twoMaps}, nil)
	w.wantResults(status, fits, doesNotFit)
	if status.Result != doesNotFit {
		t.Errorf("the plan as a whole is %s", status.Result)
	}
	w.wantBucket(2, 1, 1, 1)

	printed.Reset()
	must(t, plan.Print(&printed, status, usage.FormatJSON))
	if !strings.Contains(printed.String(), `"result": "DoesNotFit"`) {
		t.Errorf("the plan as JSON:\n%s", &printed)
	}
}

// The plan reports a rejected object in its place, and covers the rest.
func TestPlanOfWhatIsRejected(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 5)
	status := w.planned(map[string]string{"maps.yaml": twoMaps, "a.yaml": `
apiVersion: v1
kind: ConfigMap
metadata: {name: Not_A_Name}
`}, nil)
	w.wantResults(status, plan.ResultRejected, fits, fits)
	if o := status.Objects[0]; o.Name != "Not_A_Name" || !strings.Contains(o.Message, "Invalid value") {
		t.Errorf("got %+v, want the API server's error", o)
	}
	if !strings.Contains(status.Message, "reject 1 of 3") {
		t.Errorf("got the message %q", status.Message)
	}
}

// Policies count the defaults of the API server. Files need not have them.
func TestPlanHasDefaults(t *testing.T) {
	t.Parallel()
	w := newWorldFor(t, quotav1alpha1.ClaimingResource{Kind: "Secret"})
	w.grant("base", 5)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) {
		p.Spec.Trigger.Resource = quotav1alpha1.ClaimTriggerResource{APIVersion: "v1", Kind: "Secret"}
		p.Spec.Target.ResourceClaimTemplate.Spec.Requests = []quotav1alpha1.ResourceRequestTemplate{
			{ResourceType: w.resourceType(), AmountExpression: "trigger.type == 'Opaque' ? 2 : 1"},
		}
	})
	const secret = `
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: secret}
`
	status := w.planned(map[string]string{"key.yaml": secret}, nil)
	w.wantResults(status, fits)
	if len(status.Quotas) != 1 || status.Quotas[0].Amount != 2 {
		t.Errorf("got the quotas %+v, want 2, for the default type", status.Quotas)
	}
	status = w.planned(map[string]string{"key.yaml": secret}, func(o *plan.Options) { o.AsIs = true })
	if o := status.Objects[0]; o.Result == fits {
		t.Errorf("as it is, the file has no type: got %+v", o)
	}
}
