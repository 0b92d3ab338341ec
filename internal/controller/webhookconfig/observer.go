package webhookconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// observeRetryTime is the delay before the retry of a failed observation.
const observeRetryTime = 20 * time.Millisecond

// Others are several API servers with the same storage. Each has an operator with an [Observer].
type Others interface {
	// Report publishes the contents in use by this operator's API server. They replace its earlier report.
	Report(ctx context.Context, contents []string) error
	// Behind returns the number of API servers without a report of a content.
	Behind(ctx context.Context, content string) (int, error)
}

// contentOf names the content of a stored configuration. The version distinguishes it from an earlier time with the
// same content.
func contentOf(hash, resourceVersion string) string { return hash + "@" + resourceVersion }

// waitReported waits until all API servers use a content.
func (c *Controller) waitReported(ctx context.Context, content string) error {
	if c.Others == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	behind, problem := 0, error(nil)
	err := wait.ExponentialBackoffWithContext(ctx, probeBackoff(), func(ctx context.Context) (bool, error) {
		behind, problem = c.Others.Behind(ctx, content)
		return problem == nil && behind == 0, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait for all API servers to observe the webhooks (%d have not): %w", behind, err), problem)
	}
	return nil
}

// Observer proves that this operator's API server uses the stored configurations, of any content, and reports it. Set
// its fields once, before use.
type Observer struct {
	Client          kubernetes.Interface
	SystemNamespace string
	Others          Others
	Log             logr.Logger

	reported atomic.Bool
}

// Synced reports whether the API server has ever observed the stored configurations.
func (w *Observer) Synced() bool { return w.reported.Load() }

// Run follows the configurations until ctx ends.
func (w *Observer) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	validating, mutating, err := follow(ctx, w.Client, cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(_, _ any) { wake() }, DeleteFunc: func(any) { wake() },
	})
	if err != nil {
		return err
	}
	var reported []string
	for ctx.Err() == nil {
		stored := append(probesOf(mutating), probesOf(validating)...)
		var again <-chan time.Time
		if len(stored) == 2 {
			if contents := contentsOf(stored); !slices.Equal(contents, reported) {
				if err := w.report(ctx, stored, contents); err != nil {
					again = time.After(observeRetryTime)
					w.Log.V(1).Info("the API server has not observed the webhooks yet", "err", err.Error())
				} else {
					reported = contents
					w.reported.Store(true)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-again:
		}
	}
	return nil
}

// report reports the contents if the API server uses them.
func (w *Observer) report(ctx context.Context, stored []stored, contents []string) error {
	for _, s := range stored {
		observed, err := isObserved(ctx, w.Client, w.SystemNamespace, s.hash)
		if err != nil {
			return err
		}
		if !observed {
			return errors.New("it uses earlier webhooks")
		}
	}
	return w.Others.Report(ctx, contents)
}

// stored is the content of a stored configuration.
type stored struct{ hash, resourceVersion string }

func contentsOf(all []stored) []string {
	contents := make([]string, 0, len(all))
	for _, s := range all {
		contents = append(contents, contentOf(s.hash, s.resourceVersion))
	}
	return contents
}

// probesOf returns the content of the configuration in a store, or none if it does not exist or has no probe.
func probesOf(store cache.Store) []stored {
	for _, object := range store.List() {
		switch c := object.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for _, w := range c.Webhooks {
				if w.Name == probeName {
					return storedOf(c, w.ObjectSelector)
				}
			}
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for _, w := range c.Webhooks {
				if w.Name == probeName {
					return storedOf(c, w.ObjectSelector)
				}
			}
		}
	}
	return nil
}

func storedOf(object metav1.Object, probes *metav1.LabelSelector) []stored {
	if probes == nil || probes.MatchLabels[quotav1alpha1.LabelProbe] == "" {
		return nil
	}
	return []stored{{probes.MatchLabels[quotav1alpha1.LabelProbe], object.GetResourceVersion()}}
}
