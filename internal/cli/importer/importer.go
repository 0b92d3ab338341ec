// Package importer takes over the limits of another quota system. It reads the limits on a cluster, and plans
// registrations, grants, and policies in the mode Audit to count the same. It reports the limits taken over, those
// without an equivalent, and the denials to expect from enforcement. The other system stays as it is. Only commands
// import this package.
//
// Each former system has a file with a pure function from its objects to limits and notes. build makes a plan of the
// limits and of the objects of earlier imports: a repeated import changes what an administrator enforces only where the
// former system says so.
package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
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
	// Prune also deletes enforced limits that the former system no longer has.
	Prune bool
	// InPlace permits an import from Milo on the server itself: its policies get the mode Audit.
	InPlace bool
	// ImportCommand and ChangeCommand are the commands in the advice of the report: to repeat the import, and to set the
	// mode or to remove it.
	ImportCommand, ChangeCommand string
}

// importer holds the clients of one run.
type importer struct {
	Options
	api      dynamic.Interface
	metadata metadata.Interface
	mapper   apimeta.RESTMapper
	source   *cluster
	// target is the server with Bursar.
	target *cluster
	ended  ended
}

func newImporter(o Options) (*importer, error) {
	i := &importer{Options: o}
	var err error
	if i.api, i.mapper, err = clients(o.Config); err != nil {
		return nil, err
	}
	if i.metadata, err = metadata.NewForConfig(unlimited(o.Config)); err != nil {
		return nil, fmt.Errorf("reach the API server at %s: %w", o.Config.Host, err)
	}
	i.target = &cluster{api: i.api, systemNamespace: o.SystemNamespace, isTarget: true}
	i.source = i.target
	if o.SourceConfig != nil {
		i.source = &cluster{systemNamespace: o.SystemNamespace}
		if i.source.api, _, err = clients(o.SourceConfig); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// unlimited returns a configuration without a limit on the rate: concurrency limits it.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func clients(config *rest.Config) (dynamic.Interface, apimeta.RESTMapper, error) {
	config = unlimited(config)
	api, err := dynamic.NewForConfig(config)
	discovered, errDiscovery := discovery.NewDiscoveryClientForConfig(config)
	if err := errors.Join(err, errDiscovery); err != nil {
		return nil, nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	return api, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered)), nil
}

// Run imports the limits of a former system. In a dry run it only reports the effect. An error comes with the report if
// a part may be written.
func Run(ctx context.Context, o Options) (*Report, error) {
	read, isKnown := sources[o.From]
	if !isKnown {
		return nil, fmt.Errorf("there is no former system %q", o.From)
	}
	i, err := newImporter(o)
	if err != nil {
		return nil, err
	}
	if err := i.readNamespaces(ctx); err != nil {
		return nil, err
	}
	found, err := read(ctx, i.source)
	if err != nil {
		return nil, err
	}
	before, err := i.readEarlier(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := i.plan(found, before)
	if err != nil {
		return nil, err
	}
	report := &Report{From: o.From, Objects: found.objectCount, IsDryRun: o.DryRun, Plan: plan, importCommand: o.ImportCommand, changeCommand: o.ChangeCommand}
	if o.From == "milo" && o.SourceConfig == nil && !o.InPlace {
		report.importCommand += " --in-place"
	}
	if err := i.measureUse(ctx, report); err != nil {
		return nil, err
	}
	if o.DryRun {
		return report, nil
	}
	if err := i.check(ctx, plan, before); err != nil {
		return nil, err
	}
	err = i.write(ctx, plan, before)
	report.leaveOut(&i.ended)
	return report, err
}

// readNamespaces reads the namespaces of both clusters.
func (i *importer) readNamespaces(ctx context.Context) error {
	_, err := i.api.Resource(namespacesAPI).Get(ctx, i.SystemNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %s on this server: name that of Bursar with --system-namespace", i.SystemNamespace)
	}
	if err != nil {
		return fmt.Errorf("read the namespace of Bursar: %w", err)
	}
	if err := i.target.readNamespaces(ctx); err != nil || i.source == i.target {
		return err
	}
	return i.source.readNamespaces(ctx)
}

// plan makes the plan of an import. It has the limits of the former system, and enforced ones that this no longer has.
func (i *importer) plan(found *reading, before *earlier) (*Plan, error) {
	limits, notes := i.ofPresentNamespaces(found.limits, found.notes)
	if !i.Prune {
		left, err := before.limitsWithoutSource(i.From, found.exists)
		if err != nil {
			return nil, err
		}
		limits = append(limits, left...)
	}
	plan := build(i.From, i.mapper, limits, before, i.target.namespaces)
	if len(plan.unserved) > 0 {
		return nil, fmt.Errorf("the server does not serve these kinds of enforced limits now: %s; import again once it serves them, or remove the limits from the other system and import with --prune",
			strings.Join(plan.unserved, ", "))
	}
	if err := plan.addObjects(found.objects, before); err != nil {
		return nil, err
	}
	plan.isDeclared = i.From == "milo"
	plan.made, plan.Notes = found.made, append(notes, plan.Notes...)
	plan.setModes(before)
	if plan.isDeclared {
		plan.leaveOutInvalid(before)
	}
	return plan, before.settle(plan, i.Prune)
}

// ofPresentNamespaces returns the limits with a namespace on the target, and notes the others.
func (i *importer) ofPresentNamespaces(limits []Limit, notes []Note) ([]Limit, []Note) {
	isPresent := map[string]bool{}
	for n := range i.target.namespaces {
		isPresent[i.target.namespaces[n].Name] = i.target.namespaces[n].DeletionTimestamp == nil
	}
	var present []Limit
	for _, l := range limits {
		switch stays, exists := isPresent[l.Namespace]; {
		case stays:
			present = append(present, l)
		case exists:
			notes = append(notes, Note{l.From, fmt.Sprintf("namespace %s is being deleted", l.Namespace)})
		default:
			notes = append(notes, Note{l.From, fmt.Sprintf("the server with Bursar has no namespace %s: create it, and import again", l.Namespace)})
		}
	}
	return present, notes
}

// modes are the modes of policies, from the weakest to the strictest.
var modes = []quotav1alpha1.EnforcementMode{quotav1alpha1.EnforcementModeAudit, quotav1alpha1.EnforcementModeWarn, quotav1alpha1.EnforcementModeEnforce}
