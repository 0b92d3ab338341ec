package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Render makes the policy's claim for an object: kind, name, namespace, labels, annotations and spec, all valid. The
// caller adds Bursar's own labels and annotations, and the namespace if the template has none.
//
// Name takes precedence over generateName. If both are missing or render to nothing, generateName is the policy's name
// and a dash. Render does not complete a generateName. spec.resourceRef is the object, whatever the template contains.
//
// Without a request, Render omits annotations with templates that use user or requestInfo.
//
// Render omits requests with the amount 0. If it omits all, it returns nil: the object costs nothing.
//
// The error names the first failed field, with the position in its template.
func (p *ClaimPolicy) Render(ctx context.Context, in Input) (*quotav1alpha1.ResourceClaim, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, policyTimeMax, errTakesTooLong)
	defer cancel()
	r := rendering{variables: in.variables(), withoutRequest: in.WithoutRequest}
	requests := r.requests(ctx, p.requests, in.Units)
	if r.err == nil && len(requests) == 0 {
		return nil, nil
	}
	claim := &quotav1alpha1.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
		ObjectMeta: r.metadata(ctx, &p.metadataFields),
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: r.payer(ctx, p, in.User),
			Requests:    requests,
		},
	}
	if r.err != nil {
		return nil, r.err
	}
	reference, err := referenceTo(in.Object)
	if err != nil {
		return nil, fmt.Errorf("refer to the object: %w", err)
	}
	claim.Spec.ResourceRef = reference
	return claim, nil
}

// Requests returns the policy's requests for an object, regardless of its conditions and its consumer. A request with
// the amount 0 is omitted.
func (p *ClaimPolicy) Requests(ctx context.Context, in Input) ([]quotav1alpha1.ResourceRequest, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, policyTimeMax, errTakesTooLong)
	defer cancel()
	r := rendering{variables: in.variables(), withoutRequest: in.WithoutRequest}
	requests := r.requests(ctx, p.requests, in.Units)
	if r.err != nil {
		return nil, r.err
	}
	return requests, nil
}

// referenceTo returns a reference to an object, from the object's own fields.
func referenceTo(object map[string]any) (quotav1alpha1.UnversionedObjectReference, error) {
	content := unstructured.Unstructured{Object: object}
	group, err := schema.ParseGroupVersion(content.GetAPIVersion())
	switch {
	case err != nil:
		return quotav1alpha1.UnversionedObjectReference{}, fmt.Errorf("its apiVersion cannot be read: %w", err)
	case content.GetKind() == "":
		return quotav1alpha1.UnversionedObjectReference{}, errors.New("it has no kind")
	case content.GetName() == "":
		return quotav1alpha1.UnversionedObjectReference{}, errors.New("it has no metadata.name")
	}
	return quotav1alpha1.UnversionedObjectReference{
		APIGroup: group.Group, Kind: content.GetKind(), Name: content.GetName(), Namespace: content.GetNamespace(),
	}, nil
}

// rendering renders fields up to the first error, and has that error.
type rendering struct {
	variables map[string]any
	// withoutRequest omits the annotations with a use of the request.
	withoutRequest bool
	err            error
}

func (r *rendering) text(ctx context.Context, f *templateField) string {
	if r.err != nil {
		return ""
	}
	var text string
	text, r.err = f.render(ctx, r.variables)
	return text
}

// metadata renders the metadata of an object. A name takes precedence over a prefix.
func (r *rendering) metadata(ctx context.Context, t *metadataFields) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name:        r.text(ctx, &t.name),
		Namespace:   r.text(ctx, &t.namespace),
		Labels:      maps.Clone(t.labels),
		Annotations: r.annotations(ctx, t.annotations),
	}
	if meta.Name == "" {
		meta.GenerateName = cmp.Or(r.text(ctx, &t.generateName), t.defaultPrefix)
	}
	return meta
}

func (r *rendering) consumer(ctx context.Context, c *consumerFields) quotav1alpha1.ConsumerRef {
	return quotav1alpha1.ConsumerRef{
		APIGroup: r.text(ctx, &c.apiGroup), Kind: r.text(ctx, &c.kind), Name: r.text(ctx, &c.name), Namespace: r.text(ctx, &c.namespace),
	}
}

func (r *rendering) entries(ctx context.Context, fields []keyedField) map[string]string {
	if len(fields) == 0 {
		return nil
	}
	entries := make(map[string]string, len(fields))
	for i := range fields {
		entries[fields[i].key] = r.text(ctx, &fields[i].value)
	}
	return entries
}

func (r *rendering) annotations(ctx context.Context, fields []keyedField) map[string]string {
	if r.withoutRequest {
		fields = slices.DeleteFunc(slices.Clone(fields), keyedField.usesRequest)
	}
	entries := r.entries(ctx, fields)
	size := 0
	for key, value := range entries {
		size += len(key) + len(value)
	}
	if r.err == nil && size > annotationsBytesMax {
		r.err = fmt.Errorf("render the annotations: with their keys they are longer than %d bytes", annotationsBytesMax)
	}
	return entries
}

func (r *rendering) requests(ctx context.Context, fields []requestFields, units Units) []quotav1alpha1.ResourceRequest {
	requests := make([]quotav1alpha1.ResourceRequest, 0, len(fields))
	for _, f := range fields {
		amount := r.amount(ctx, f, units)
		if amount > 0 {
			requests = append(requests, quotav1alpha1.ResourceRequest{
				ResourceType: f.resourceType, Amount: amount, Dimensions: r.entries(ctx, f.dimensions),
			})
		}
	}
	return requests
}

func (r *rendering) amount(ctx context.Context, f requestFields, units Units) int64 {
	if f.expression == nil || r.err != nil {
		return f.amount
	}
	var unit string
	if units != nil {
		unit = units.BaseUnit(f.resourceType)
	}
	var amount int64
	amount, r.err = f.expression.evaluate(ctx, r.variables, unit)
	return amount
}
