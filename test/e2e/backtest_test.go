package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backtest"
)

// A backtest of a policy in warning mode gives the objects denied under enforcement, and the limit without denials.
func TestBacktest(t *testing.T) {
	t.Parallel()
	const limit, objects = 3, 5
	w := newWorld(t)
	w.grant("base", limit)
	w.policy(w.name, func(p *quotav1alpha1.ClaimCreationPolicy) { p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeWarn })
	var uids []types.UID
	for i := range objects {
		object := w.configMap(fmt.Sprint("map-", i))
		w.mustCreate(object)
		uids = append(uids, object.UID)
	}
	w.wantBucket(limit, objects, 0, objects)
	w.waitClaims(uids...) // the bucket counts a claim from its reservation on, and a backtest reads the stored claims
	result, err := backtest.Run(w.ctx, admin, w.name, 0)
	must(t, err)
	if result.Objects != objects || len(result.Denied) != objects-limit {
		t.Fatalf("got %+v, want %d of %d objects to be denied", result, objects-limit, objects)
	}
	if d := result.Denied[0]; d.Object.Kind != "ConfigMap" || d.Requested != 1 || d.Used != limit || d.Limit != limit || d.ConsumerRef != w.consumer() {
		t.Errorf("got %+v, want a ConfigMap beyond the limit", d)
	}
	if len(result.Lacking) != 1 || result.Lacking[0].Limit != limit || result.Lacking[0].Needed != objects {
		t.Errorf("got %+v, want a limit of %d", result.Lacking, objects)
	}
	var printed strings.Builder
	must(t, result.Print(&printed, ""))
	if want := fmt.Sprintf("would have denied %d of the %d objects", objects-limit, objects); !strings.Contains(printed.String(), want) {
		t.Errorf("the result does not say %q:\n%s", want, &printed)
	}
	if want := fmt.Sprintf("%d maps", objects); !strings.Contains(printed.String(), want) {
		t.Errorf("the result does not name the needed limit in display units, %q:\n%s", want, &printed)
	}

	w.grant("more", objects-limit)
	w.wantBucket(objects, objects, 0, objects)
	result, err = backtest.Run(w.ctx, admin, w.name, 0)
	must(t, err)
	if len(result.Denied) > 0 {
		t.Errorf("with enough quota it would have denied %+v", result.Denied)
	}
	if _, err := backtest.Run(w.ctx, admin, "no-such-policy", 0); err == nil || !strings.Contains(err.Error(), "there is no ClaimCreationPolicy") {
		t.Errorf("got %v for a policy that does not exist", err)
	}
}

// A backtest of a policy without claims reads the existing objects.
func TestBacktestOfCountedObjects(t *testing.T) {
	t.Parallel()
	const limit = 3
	w := newCountedWorld(t, limit, func(p *quotav1alpha1.ClaimCreationPolicy) {
		costs(p)
		p.Spec.EnforcementMode = quotav1alpha1.EnforcementModeWarn
	})
	w.mustCreate(w.sized("a", 2))
	w.mustCreate(w.sized("b", 4))
	w.mustCreate(w.sized("free", 0))
	w.mustCreate(w.configMap("unsized"))

	result, err := backtest.Run(w.ctx, admin, w.name, 0)

	must(t, err)
	if result.Objects != 2 || result.NotApplicable != 1 || len(result.Denied) != 1 || len(result.Lacking) != 1 {
		t.Fatalf("got %+v, want one of the two objects that cost something to be denied", result)
	}
	if d := result.Denied[0]; d.Object.Kind != "ConfigMap" || d.ConsumerRef != w.consumer() || d.Limit != limit {
		t.Errorf("got %+v, want a ConfigMap beyond the limit", d)
	}
	if l := result.Lacking[0]; l.Limit != limit || l.Needed != 6 {
		t.Errorf("got %+v, want a limit of 6", l)
	}
}
