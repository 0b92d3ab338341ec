package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/internal/journal"
	"github.com/bursar/bursar/internal/journal/files"
	"github.com/bursar/bursar/internal/journal/overapi"
	"github.com/bursar/bursar/internal/naming"
	"github.com/bursar/bursar/internal/standalone"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/server"
)

// recorded is a server with a journal in a directory.
type recorded struct {
	*testing.T
	server  *server.Server
	metrics *prometheus.Registry
	dir     string
}

// startRecorded starts a server on a data directory, with its default journal.
func startRecorded(t *testing.T, dataDir string) *recorded {
	t.Helper()
	metrics := prometheus.NewRegistry()
	s := start(t, standalone.Options{DataDir: dataDir, Metrics: metrics})
	return &recorded{T: t, server: s, metrics: metrics, dir: filepath.Join(dataDir, "journal")}
}

// as returns the client of an administrator with a name.
func (r *recorded) as(name string) client.Client {
	r.Helper()
	api, err := r.server.As(rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}})
	must(r, err)
	return api
}

// entries reads the journal from its files.
func (r *recorded) entries() ([]journal.Entry, error) {
	var all []journal.Entry
	for entry, err := range files.Dir(r.dir).Entries(r.Context(), journal.Query{}) {
		if err != nil {
			return nil, err
		}
		all = append(all, entry)
	}
	return all, nil
}

// addsUp returns an error unless the entries add up to the ledgers, and include all ledgers.
func (r *recorded) addsUp() error {
	entries, err := r.entries()
	if err != nil {
		return err
	}
	return addUp(r.Context(), r.server.Admin, entries)
}

// addUp returns an error unless entries add up to the ledgers of an API server.
func addUp(ctx context.Context, api client.Reader, entries []journal.Entry) error {
	var replay journal.Replay
	for i := range entries {
		if err := replay.Add(entries[i]); err != nil {
			return err
		}
	}
	var ledgers quotav1alpha1.ConsumerLedgerList
	if err := api.List(ctx, &ledgers); err != nil {
		return err
	}
	if len(ledgers.Items) == 0 {
		return errors.New("there is no ledger")
	}
	for i := range ledgers.Items {
		ledger := &ledgers.Items[i].Spec
		if diff := cmp.Diff(stateOf(ledger), replay.State(ledger.ConsumerRef)); diff != "" {
			return fmt.Errorf("the journal of %s does not add up to its ledger (-ledger +journal):\n%s", ledger.ConsumerRef.Name, diff)
		}
	}
	return nil
}

// stateOf returns the limits and the balances of a ledger.
func stateOf(ledger *quotav1alpha1.ConsumerLedgerSpec) journal.Opening {
	type grantKey struct{ resourceType, grant string }
	limits, balances := map[grantKey]int64{}, map[string]journal.Balance{}
	for _, g := range ledger.Grants {
		for _, a := range g.Allowances {
			limits[grantKey{a.ResourceType, g.Namespace + "/" + g.Name}] += a.Amount
		}
	}
	charge := func(resourceType string, dimensions map[string]string, amount int64) {
		key := resourceType + fmt.Sprint(dimensions)
		balances[key] = journal.Balance{ResourceType: resourceType, Dimensions: dimensions, Amount: balances[key].Amount + amount}
	}
	for _, reservation := range ledger.Reservations {
		for _, c := range reservation.Charges {
			charge(c.ResourceType, c.Dimensions, c.Amount)
		}
	}
	for _, o := range ledger.Observations {
		for _, d := range o.Demands {
			charge(d.ResourceType, d.Dimensions, d.Amount)
		}
	}
	var state journal.Opening
	for key, amount := range limits {
		if amount != 0 {
			state.Limits = append(state.Limits, journal.Limit{ResourceType: key.resourceType, Grant: key.grant, Amount: amount})
		}
	}
	for _, balance := range balances {
		if balance.Amount != 0 {
			state.Balances = append(state.Balances, balance)
		}
	}
	state.Sort()
	return state
}

// byConsumer returns entries by consumer.
func byConsumer(entries []journal.Entry) map[string][]journal.Entry {
	of := map[string][]journal.Entry{}
	for i := range entries {
		of[naming.Ledger(entries[i].Consumer)] = append(of[naming.Ledger(entries[i].Consumer)], entries[i])
	}
	return of
}

// The journal adds up to the ledgers and names the authors. It continues after a restart without changing another
// entry.
func TestJournalAddsUp(t *testing.T) {
	t.Parallel()
	dir, who := t.TempDir(), &actors{of: map[string]string{}}
	var before []journal.Entry
	t.Run("first run", func(t *testing.T) {
		r := startRecorded(t, dir)
		r.declare()
		r.work(1, who)
		r.period("trial", who)
		eventually(t, r.addsUp)
		var err error
		before, err = r.entries()
		must(t, err)
		r.checkActors(before, who)
	})
	t.Run("second run", func(t *testing.T) {
		r := startRecorded(t, dir)
		r.work(2, who)
		eventually(t, r.addsUp)
		after, err := r.entries()
		must(t, err)
		r.checkActors(after, who)
		for consumer, entries := range byConsumer(before) {
			now := byConsumer(after)[consumer]
			if diff := cmp.Diff(entries, now[:min(len(entries), len(now))]); diff != "" {
				t.Errorf("the journal of %s has changed (-before +after):\n%s", consumer, diff)
			}
		}
		kinds := map[journal.Kind]int{}
		for i := range after {
			kinds[after[i].Kind]++
		}
		if kinds[journal.Opened] != 2 {
			t.Errorf("after a restart there are %d openings of two journals: %v", kinds[journal.Opened], kinds)
		}
	})
}

// What a claim holds counts, and is an entry, even if somebody changes the claim behind the webhooks.
func TestJournalOfAnAlteredClaim(t *testing.T) {
	t.Parallel()
	r := startRecorded(t, t.TempDir())
	r.declare()
	w := &worker{recorded: r, random: rand.New(rand.NewPCG(1, 1))} //nolint:gosec // the same each time
	claim := w.claim("a")
	claim.Spec.ConsumerRef = platform.Consumer("globex")
	must(t, r.as("anna").Create(t.Context(), claim))
	eventually(t, r.addsUp)
	bursar, err := r.server.As(asOperator)
	must(t, err)
	eventually(t, func() error {
		if err := bursar.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
			return errors.New("the claim is not granted")
		}
		claim.Spec.Requests[0].Amount += 3
		return bursar.Update(t.Context(), claim)
	})
	eventually(t, func() error {
		entries, err := r.entries()
		if err != nil {
			return err
		}
		for i := range entries {
			if e := &entries[i]; e.Kind == journal.Changed && e.Change == 3 && e.Claim == claim.Namespace+"/"+claim.Name {
				return r.addsUp()
			}
		}
		return errors.New("there is no entry of the change")
	})
}

// While the sink stands still, nothing else does, and metrics report it. Afterwards no entry is missing.
func TestJournalStandsStill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startRecorded(t, dir)
	r.declare()
	eventually(t, r.addsUp)
	away, link := filepath.Join(dir, "away"), filepath.Join(dir, "link")
	must(t, os.Symlink(away, link))
	must(t, os.Rename(r.dir, away))
	must(t, os.WriteFile(r.dir, nil, 0o600))
	for i := range 50 {
		must(t, r.as("anna").Create(t.Context(), platform.Map(i)))
	}
	eventually(t, func() error {
		for _, name := range []string{"bursar_journal_append_failures_total", "bursar_journal_oldest_waiting_seconds", "bursar_journal_waiting_entries"} {
			if value, err := valueOf(r.metrics, name); err != nil || value <= 0 {
				return fmt.Errorf("%s is %v (%w), want more than 0", name, value, err)
			}
		}
		return nil
	})
	must(t, os.Rename(link, r.dir)) // replaces the file at once, while the sink tries again and again
	// The last admissions may still be in the slice, and not in the ledger yet.
	eventually(t, func() error {
		entries, err := r.entries()
		if err != nil {
			return err
		}
		admitted := 0
		for i := range entries {
			if entries[i].Kind == journal.Admitted && entries[i].Actor == "anna" {
				admitted++
			}
		}
		if admitted != 50 {
			return fmt.Errorf("%d of 50 admissions are in the journal", admitted)
		}
		return r.addsUp()
	})
	eventually(t, func() error {
		if value, err := valueOf(r.metrics, "bursar_journal_oldest_waiting_seconds"); err != nil || value > 0 {
			return fmt.Errorf("the oldest entry has waited %v s (%w)", value, err)
		}
		return nil
	})
}

// valueOf returns the value of the only series of a counter or gauge.
func valueOf(metrics prometheus.Gatherer, name string) (float64, error) {
	families, err := metrics.Gather()
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if family.GetName() == name && len(family.GetMetric()) == 1 {
			return family.GetMetric()[0].GetGauge().GetValue() + family.GetMetric()[0].GetCounter().GetValue(), nil
		}
	}
	return 0, fmt.Errorf("there is no single series of %s", name)
}

// If Bursar cannot read the journal, the answer gives its place.
func TestJournalThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, sink := range map[string]config.JournalSink{"Stdout": config.JournalStdout, "None": config.JournalNone} {
		t.Run(name, func(t *testing.T) {
			s := start(t, standalone.Options{Quota: config.Quota{Journal: config.Journal{Sink: sink}}})
			must(t, platform.Install(t.Context(), s.Admin))
			history := &quotav1alpha1.QuotaHistory{ObjectMeta: metav1.ObjectMeta{GenerateName: "h-", Namespace: "default"}, Spec: quotav1alpha1.QuotaHistorySpec{ConsumerRef: shop}}
			err := s.Admin.Create(t.Context(), history, client.DryRunAll)
			if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "there is no journal to read here: it goes to standard output (bursar reads it from the collected log with --journal FILE), or it is switched off") {
				t.Errorf("got %v, want it to be not found, and why", err)
			}
			source := &overapi.Source{API: s.Admin, Namespace: "default"}
			for _, err := range source.Entries(t.Context(), journal.Query{Consumer: &shop}) {
				if err == nil || !strings.HasPrefix(err.Error(), "there is no journal to read here") {
					t.Errorf("the command says %v", err)
				}
			}
		})
	}
}
