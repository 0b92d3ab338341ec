// Package importer takes over the limits of another quota system. It reads the limits on a cluster, and plans
// registrations, grants, and policies in the mode Audit to count the same. It reports the limits taken over, those
// without an equivalent, and the denials to expect from enforcement. The other system stays as it is. Only commands
// import this package.
//
// Each former system has a file with a pure function from its objects to limits and notes. [Build] makes a plan of the
// limits.
package importer

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Options choose the limits to import, and the target.
type Options struct {
	// Config reaches the server with Bursar.
	Config *rest.Config
	// SourceConfig reaches the cluster of the former system. If it is nil, the cluster is the server's own.
	SourceConfig *rest.Config
	// From is the former system, see [Sources].
	From string
	// SystemNamespace is Bursar's own namespace.
	SystemNamespace string
	// DryRun reads everything, and writes nothing.
	DryRun bool
}

// importer holds the clients of one run.
type importer struct {
	Options
	api    dynamic.Interface
	mapper apimeta.RESTMapper
	source *cluster
}

func newImporter(o Options) (*importer, error) {
	i := &importer{Options: o}
	var err error
	if i.api, i.mapper, err = clients(o.Config); err != nil {
		return nil, err
	}
	i.source = &cluster{api: i.api, systemNamespace: o.SystemNamespace, isTarget: o.SourceConfig == nil}
	if o.SourceConfig != nil {
		if i.source.api, _, err = clients(o.SourceConfig); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func clients(config *rest.Config) (dynamic.Interface, apimeta.RESTMapper, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // concurrency limits the rate
	config.WarningHandler = rest.NoWarnings{}
	api, err := dynamic.NewForConfig(config)
	discovered, errDiscovery := discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(err, errDiscovery); err != nil {
		return nil, nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	return api, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered)), nil
}

// Run imports the limits of a former system. In a dry run it only reports the effect.
func Run(ctx context.Context, o Options) (*Report, error) {
	read, isKnown := sources[o.From]
	if !isKnown {
		return nil, fmt.Errorf("there is no former system %q", o.From)
	}
	i, err := newImporter(o)
	if err != nil {
		return nil, err
	}
	if err := i.source.readNamespaces(ctx); err != nil {
		return nil, err
	}
	found, err := read(ctx, i.source)
	if err != nil {
		return nil, err
	}
	plan := Build(o.From, i.mapper, found.limits)
	if err := plan.addObjects(found.objects); err != nil {
		return nil, err
	}
	plan.Notes = append(found.notes, plan.Notes...)
	i.noteMissingNamespaces(plan)
	report := &Report{From: o.From, Objects: found.objectCount, IsDryRun: o.DryRun, Plan: plan}
	if err := i.measureUse(ctx, report); err != nil {
		return nil, err
	}
	if o.DryRun {
		return report, nil
	}
	return report, i.write(ctx, plan)
}

// noteMissingNamespaces notes that limits of single namespaces need the same namespaces on the server.
func (i *importer) noteMissingNamespaces(plan *Plan) {
	if i.SourceConfig != nil && len(plan.Profiles) > 0 {
		plan.Notes = append(plan.Notes, Note{"namespaces", "limits of single namespaces need the same namespaces here"})
	}
}

// modes are the modes of policies.
var modes = []quotav1alpha1.EnforcementMode{quotav1alpha1.EnforcementModeAudit, quotav1alpha1.EnforcementModeWarn, quotav1alpha1.EnforcementModeEnforce}
