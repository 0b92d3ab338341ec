// Package plan asks Bursar whether it would admit objects, by a QuotaReview, and prints the answer. Commands and the
// console import it.
package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/usage"
)

// Options are the objects to ask about.
type Options struct {
	// API and Dynamic reach the API server.
	API     client.Client
	Dynamic dynamic.Interface
	// Namespace is the namespace of the review, and of objects without a namespace.
	Namespace string
	// Applied are the files with objects to create or change, and Deleted those with objects to delete.
	Applied, Deleted resource.FilenameOptions
	// Objects are further objects to create or change, after those in files.
	Objects []*unstructured.Unstructured
	// Surge means that larger and new objects come before others free their quota.
	Surge bool
	// AsIs takes the objects as they are, without asking the API server for its defaults and changes.
	AsIs bool
}

// Review asks about the objects, and returns the answer. Objects rejected by the API server do not fit.
func Review(ctx context.Context, o Options) (*quotav1alpha1.QuotaReviewStatus, error) {
	applied, err := o.read(o.Applied, quotav1alpha1.ReviewedOperationApply)
	if err != nil {
		return nil, err
	}
	for _, content := range o.Objects {
		planned, err := o.place(content, quotav1alpha1.ReviewedOperationApply)
		if err != nil {
			return nil, err
		}
		applied = append(applied, planned)
	}
	deleted, err := o.read(o.Deleted, quotav1alpha1.ReviewedOperationDelete)
	if err != nil {
		return nil, err
	}
	objects := slices.Concat(applied, deleted)
	switch n := len(objects); {
	case n == 0:
		return nil, errors.New("there are no objects in the files")
	case n > quotav1alpha1.ReviewMax:
		return nil, fmt.Errorf("there are %d objects in the files, and a plan may have %d: plan parts of them", n, quotav1alpha1.ReviewMax)
	}
	if !o.AsIs {
		if err := o.complete(ctx, objects); err != nil {
			return nil, err
		}
	}
	status, err := o.ask(ctx, slices.DeleteFunc(slices.Clone(objects), (*object).isRejected))
	if err != nil {
		return nil, err
	}
	addRejected(status, objects)
	return status, nil
}

// ask asks Bursar about objects.
func (o *Options) ask(ctx context.Context, objects []*object) (*quotav1alpha1.QuotaReviewStatus, error) {
	if len(objects) == 0 {
		return &quotav1alpha1.QuotaReviewStatus{}, nil
	}
	review := &quotav1alpha1.QuotaReview{ObjectMeta: metav1.ObjectMeta{GenerateName: "plan-", Namespace: o.Namespace}}
	review.Spec.Surge = o.Surge
	for _, planned := range objects {
		content, err := json.Marshal(reviewable(planned.Unstructured))
		if err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", planned.GetKind(), planned.GetName(), err)
		}
		review.Spec.Objects = append(review.Spec.Objects, quotav1alpha1.ReviewedObject{Operation: planned.operation, Object: runtime.RawExtension{Raw: content}})
	}
	if err := o.API.Create(ctx, review, client.DryRunAll); err != nil {
		return nil, fmt.Errorf("ask for a QuotaReview in namespace %s: %w", o.Namespace, err)
	}
	if review.Status == nil {
		return nil, errors.New("the API server did not ask Bursar: run bursar status")
	}
	return review.Status, nil
}

// ResultRejected is the result of an object that the API server would reject, whatever the quota. Review does not ask
// Bursar about it.
const ResultRejected quotav1alpha1.ReviewResult = "Rejected"

// addRejected adds the rejected objects to an answer, in the order of the files.
func addRejected(status *quotav1alpha1.QuotaReviewStatus, objects []*object) {
	rejected := 0
	for i, planned := range objects {
		if !planned.isRejected() {
			continue
		}
		rejected++
		status.Objects = slices.Insert(status.Objects, i, quotav1alpha1.ReviewedObjectResult{
			APIVersion: planned.GetAPIVersion(), Kind: planned.GetKind(), Namespace: planned.GetNamespace(),
			Name: cmp.Or(planned.GetName(), planned.GetGenerateName()),
			ReviewedResult: quotav1alpha1.ReviewedResult{
				Result: ResultRejected, Message: "The API server would reject it: " + planned.rejection.Error(),
			},
		})
	}
	if rejected > 0 {
		status.Result = quotav1alpha1.ReviewResultDoesNotFit
		status.Message = strings.TrimSpace(fmt.Sprintf("The API server would reject %d of %d. %s", rejected, len(objects), status.Message))
	}
}

// Print writes the answer in a format.
func Print(w io.Writer, status *quotav1alpha1.QuotaReviewStatus, format usage.Format) error {
	if format == usage.FormatJSON || format == usage.FormatYAML {
		return usage.Encode(w, status, format)
	}
	return printTables(w, status)
}

func printTables(w io.Writer, status *quotav1alpha1.QuotaReviewStatus) error {
	rows := [][]string{{"OBJECT", "OPERATION", "RESULT", "POLICIES"}}
	var notes []string
	for i := range status.Objects {
		o := &status.Objects[i]
		rows = append(rows, []string{NameOf(o), cmp.Or(o.Operation, "-"), string(o.Result), PoliciesOf(o)})
		if o.Message != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", NameOf(o), o.Message))
		}
	}
	if err := usage.PrintTable(w, rows); err != nil {
		return err
	}
	if len(status.Quotas) > 0 {
		rows = [][]string{{"CONSUMER", "RESOURCE TYPE", "CHANGE", "USED", "LIMIT", "AVAILABLE", "AFTER"}}
		for i := range status.Quotas {
			quota := &status.Quotas[i]
			rows = append(rows, []string{
				message.Consumer(quota.ConsumerRef), TypeOf(&quota.ReviewedCharge), quota.Display.Amount,
				quota.Display.Used, quota.Display.Limit, quota.Display.Available, quota.Display.AvailableAfter,
			})
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := usage.PrintTable(w, rows); err != nil {
			return err
		}
	}
	for _, text := range append(notes, status.Message) {
		if _, err := fmt.Fprintf(w, "\n%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// NameOf names an object, with its namespace if it has one.
func NameOf(o *quotav1alpha1.ReviewedObjectResult) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// PoliciesOf names the matching policies of an object, with their mode unless it is Enforce.
func PoliciesOf(o *quotav1alpha1.ReviewedObjectResult) string {
	names := make([]string, 0, len(o.Policies))
	for _, p := range o.Policies {
		name := p.Name
		if p.EnforcementMode != quotav1alpha1.EnforcementModeEnforce {
			name += " (" + string(p.EnforcementMode) + ")"
		}
		names = append(names, name)
	}
	return cmp.Or(strings.Join(names, ", "), "-")
}

// TypeOf names a resource type, with the dimensions if there are any.
func TypeOf(c *quotav1alpha1.ReviewedCharge) string {
	if len(c.Dimensions) == 0 {
		return c.ResourceType
	}
	return fmt.Sprintf("%s %v", c.ResourceType, c.Dimensions)
}
