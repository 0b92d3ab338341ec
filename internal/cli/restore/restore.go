// Package restore puts a backup into another cluster or server. Only commands import it.
//
// Objects have other UIDs there, and claims name the UIDs of their objects. So each claim of a policy gets the UID of
// the object with the same kind and name. If there is no such object, the restore leaves the claim out: Bursar charges
// the object at its creation.
//
// The order keeps the ledgers exact at every step. Registrations come first, because everything names their types; only
// namespaces and imported consumers precede them.
// Granted claims follow as they are, without another decision: the ledgers observe them. Grants, requests and the rest
// come next. Policies are last: with them objects begin to count.
//
// Every step may run again after an interruption: it skips existing objects.
package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/backup"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// Options choose the backup, and the server to restore it on.
type Options struct {
	// Config reaches the API server as an administrator with the right to impersonate Bursar.
	Config *rest.Config
	// Path is the backup.
	Path string
	// Overwrite replaces declared objects different from those of the backup. Otherwise Run changes nothing if there is
	// one.
	Overwrite bool
	// CreateNamespaces creates missing namespaces of the objects, with their labels and annotations.
	CreateNamespaces bool
	// DryRun checks everything, and changes nothing.
	DryRun bool
	// BursarUser is the user name of Bursar on the server. If it is empty, the webhooks of Bursar name it.
	BursarUser string
	// Timeout bounds the wait until the ledgers agree.
	Timeout time.Duration
}

// restorer holds the state of one run.
type restorer struct {
	Options
	archive *backup.Archive
	kinds   map[string]quotakinds.Kind
	order   []quotakinds.Kind
	// caller has the rights of the user. bursar has those of Bursar, and bypasses the webhooks. Only Bursar may write a
	// granted claim, a ledger, or the requester of a request.
	caller, bursar dynamic.Interface
	bursarConfig   *rest.Config
	metadata       metadata.Interface
	mapper         apimeta.RESTMapper
	live           *liveObjects
	requestUIDs    map[string]string
	// agreed are the balances whose ledgers have agreed with the claims.
	agreed map[balance]bool
	// firstLook is the version of the API server at the first look at the ledgers. Later observations were made after
	// the restore.
	firstLook int64
	// compared are the versions as of which ledgers have been compared with the claims.
	compared map[quotav1alpha1.ConsumerRef]int64
	report   *Report
}

// Run restores a backup, and waits until ledgers and claims agree. If a step or the wait fails, it returns both the
// report and the error. If a check fails before the first step, it returns no report.
func Run(ctx context.Context, o Options) (*Report, error) {
	archive, err := backup.Open(o.Path)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	r, err := newRestorer(o, archive)
	if err != nil {
		return nil, err
	}

	for _, check := range []func(context.Context) error{
		r.becomeBursar, r.checkKinds, r.checkServed, r.checkNamespaces, r.checkDeclared, r.checkRequests, r.readUnits,
	} {
		if err := check(ctx); err != nil {
			return nil, fmt.Errorf("%w; nothing was changed", err)
		}
	}

	for _, step := range []func(context.Context) error{
		r.createNamespaces, r.restoreImported, r.restoreFirst, r.restoreGranted, r.restoreRequests, r.restoreGrants,
		r.restoreWaiting, r.restoreRest,
	} {
		if err := step(ctx); err != nil {
			return r.report, fmt.Errorf("%w; run the same command again to complete the restore", err)
		}
	}

	if o.DryRun {
		return r.report, nil
	}
	return r.report, r.verify(ctx)
}

func newRestorer(o Options, archive *backup.Archive) (*restorer, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // concurrency limits the rate
	config.WarningHandler = rest.NoWarnings{}
	r := &restorer{
		Options: o, archive: archive, kinds: map[string]quotakinds.Kind{}, requestUIDs: map[string]string{},
		agreed: map[balance]bool{}, compared: map[quotav1alpha1.ConsumerRef]int64{},
	}
	r.Config = config
	r.report = newReport(archive.Manifest, o.DryRun)

	api, errDiscovery := discovery.NewDiscoveryClientForConfig(config)
	var errDynamic, errMetadata error
	r.caller, errDynamic = dynamic.NewForConfig(config)
	r.metadata, errMetadata = metadata.NewForConfig(config)
	if err := errors.Join(errDiscovery, errDynamic, errMetadata); err != nil {
		return nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}

	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(api))
	r.live = &liveObjects{mapper: r.mapper, metadata: r.metadata, kinds: map[objectKind]*knownObjects{}}

	var err error
	if r.order, err = quotakinds.Find(api); err != nil {
		return nil, err
	}
	r.order = slices.Concat([]quotakinds.Kind{quotakinds.Namespaces}, quotakinds.ImportedKinds(), r.order)
	for _, kind := range r.order {
		r.kinds[kind.String()] = kind
	}
	return r, nil
}

// checkKinds makes sure that the server has every kind with objects in the backup.
func (r *restorer) checkKinds(context.Context) error {
	for _, file := range r.archive.Manifest.Files {
		if _, isServed := r.kinds[file.Resource]; !isServed && file.Objects > 0 {
			return fmt.Errorf("the server does not know %[2]s, and the backup has %[1]d of them: update Bursar there to version %[3]s or later",
				file.Objects, file.Resource, r.archive.Manifest.Bursar)
		}
	}
	return nil
}

// each calls do with every object of a kind in the backup.
func (r *restorer) each(kind quotakinds.Kind, do func(*unstructured.Unstructured) error) error {
	return r.archive.Each(kind.String(), do)
}
