package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/operator"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// somebody is an administrator other than Bursar.
var somebody = rest.ImpersonationConfig{UserName: "somebody", Groups: []string{"system:masters"}}

// slowList holds back lists of all claims, as if there were very many.
type slowList struct {
	http.RoundTripper
	asked *atomic.Bool
}

func (s slowList) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if strings.HasSuffix(r.URL.Path, "/resourceclaims") && r.Method == http.MethodGet && !query.Has("watch") && !query.Has("fieldSelector") {
		s.asked.Store(true)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return s.RoundTripper.RoundTrip(r)
}

// A replica decides before it has listed the claims. For consumers without a ledger, it decides by their claims.
func TestDecidesWithoutALedgerBeforeTheClaimsAreListed(t *testing.T) {
	t.Parallel()
	reached, err := server.Connect(startPlane(t).AdminKubeconfigPath())
	must(t, err)
	config, bursar := reached.Config, reached.Admin // the API server calls no webhook about Bursar's own user
	api, err := reached.As(somebody)
	must(t, err)
	stop := runOperator(t, config)
	platform.DeclareMaps(t, api, 2)
	platform.ProtectMaps(t, api, "ConfigMap")
	if err := api.Create(t.Context(), platform.Map(1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		var claims quotav1alpha1.ResourceClaimList
		if err := api.List(t.Context(), &claims); err != nil {
			return err
		}
		if len(claims.Items) != 1 || !apimeta.IsStatusConditionTrue(claims.Items[0].Status.Conditions, quotav1alpha1.ConditionGranted) {
			return fmt.Errorf("no claim is granted: %+v", claims.Items)
		}
		return nil
	})
	stop()
	acme := &quotav1alpha1.ConsumerLedger{ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(platform.Consumer("acme"))}}
	if err := bursar.Delete(t.Context(), acme); err != nil {
		t.Fatal(err)
	}

	var asked atomic.Bool
	slow := rest.CopyConfig(config)
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper { return slowList{next, &asked} })
	defer runOperator(t, slow)()
	var grant quotav1alpha1.ResourceGrant
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "acme"}, &grant); err != nil {
		t.Fatal(err)
	}
	fresh := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "fresh", Namespace: "default"}, Spec: grant.Spec}
	fresh.Spec.ConsumerRef = platform.Consumer("fresh")
	if err := api.Create(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(fresh), fresh); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(fresh.Status.Conditions, quotav1alpha1.ConditionActive) {
			return fmt.Errorf("the grant of a new consumer is not active: %+v", fresh.Status.Conditions)
		}
		return nil
	})
	eventually(t, func() error { return api.Create(t.Context(), platform.Map(2)) })
	if err := api.Create(t.Context(), platform.Map(3)); !platform.IsExceeded(err) || !strings.Contains(err.Error(), "used: 2") {
		t.Errorf("of 2 maps one was there when the ledger was lost, and one was made after it: a third is answered %v", err)
	}
	if !asked.Load() {
		t.Error("no list of all claims was held back")
	}
}

// runOperator runs an operator until the caller calls stop, and returns once it enforces quota.
func runOperator(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	return runOptions(t, operator.Options{Config: config, InstallCRDs: true})
}

func runOptions(t *testing.T, options operator.Options) (stop func()) {
	t.Helper()
	o, err := operator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	await.NoError(t, time.Minute, o.Ready)
	return func() {
		cancel()
		if err := await.End(func() error { return <-ended }); err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	}
}
