package requests

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/console/overview"
)

// quotasMax bounds the resource types of consumers on a page.
const quotasMax = 500

// quotas are the use and limits of consumers in a namespace, with the units for entering amounts.
type quotas struct {
	*overview.Overview
	// isForbidden reports whether the person may not see the quota.
	isForbidden bool
}

// readQuotas reads the quota shown in a namespace, of a consumer or, if it is empty, of all. It omits what the person
// may not read.
func readQuotas(ctx context.Context, api client.Reader, namespace, consumer string) (*quotas, error) {
	read, err := overview.Read(ctx, api, overview.Query{Namespace: namespace, Consumer: consumer, Max: quotasMax})
	if !apierrors.IsForbidden(err) {
		return &quotas{Overview: read}, err
	}
	// People who may read registrations know the units without the quota.
	names, err := overview.ReadNames(ctx, api)
	return &quotas{Overview: &overview.Overview{Names: names}, isForbidden: true}, err
}

// of returns the quota of a consumer, or nil if no namespace shows it to the person.
func (q *quotas) of(consumer quotav1alpha1.ConsumerRef, resourceType string) *overview.Item {
	for i := range q.Items {
		if item := &q.Items[i]; item.Usage.Consumer == consumer && item.ResourceType == resourceType {
			return item
		}
	}
	return nil
}

// consumers returns the names of the consumers, as --for takes them.
func (q *quotas) consumers() []string {
	var refs []quotav1alpha1.ConsumerRef
	for i := range q.Items {
		if ref := q.Items[i].Usage.Consumer; !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return consumername.List(refs)
}

// types returns the resource types of the quota and of the registrations, sorted.
func (q *quotas) types() []string {
	types := q.Names.ResourceTypes()
	for i := range q.Items {
		types = append(types, q.Items[i].ResourceType)
	}
	slices.Sort(types)
	return slices.Compact(types)
}
