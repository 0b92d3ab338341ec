// Package request asks for quota, lists requests for quota, and decides on them. It writes with the permissions of its
// user. Commands and the console import it.
package request

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// suffixLength is the length of the API server's suffix of a generated name.
const suffixLength = 5

// Options are a new request.
type Options struct {
	// Namespace is the namespace of the request, and Name its name. If Name is empty, the API server generates it from the
	// consumer's name.
	Namespace, Name string
	// For names the consumer, as KIND/NAME, KIND.GROUP/NAME or KIND.GROUP/NAMESPACE/NAME. If it is empty, the consumer is
	// the only one with quota in the namespace.
	For string
	// Amounts are the wanted amounts.
	Amounts []Amount
	// Dimensions restrict increases.
	Dimensions map[string]string
	// Reason is for the deciders.
	Reason string
	// Until is the end of the quota, or nil.
	Until *metav1.Time
}

// Check returns an error if something is missing.
func (o *Options) Check() error {
	switch {
	case len(o.Amounts) == 0:
		return invalid("", "give an amount: TYPE=AMOUNT, such as projects=10 for that limit, or projects=+5 for that much more")
	case strings.TrimSpace(o.Reason) == "":
		return invalid("", "give a reason with --reason: the approvers read it")
	default:
		return nil
	}
}

// Create creates a request with valid options, see [Options.Check].
func Create(ctx context.Context, api client.Client, o Options) (*quotav1alpha1.QuotaRequest, error) {
	known, err := readShown(ctx, api, o.Namespace)
	if err != nil {
		return nil, err
	}
	consumer, err := known.consumer(o.For)
	if err != nil {
		return nil, elsewhere(ctx, api, known, o.For, err)
	}
	request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
	if o.Name == "" {
		request.GenerateName = generatedName(consumer.Name)
	}
	request.Spec = quotav1alpha1.QuotaRequestSpec{ConsumerRef: consumer, Reason: o.Reason, Until: o.Until}
	if request.Spec.Requests, err = asked(o.Amounts, o.Dimensions, known.types(consumer), known.units()); err != nil {
		return nil, err
	}
	if err := api.Create(ctx, request); err != nil {
		return nil, createFailure(request, err)
	}
	return request, nil
}

// createFailure returns the error of a request that could not be created.
func createFailure(request *quotav1alpha1.QuotaRequest, err error) error {
	consumer := names([]quotav1alpha1.ConsumerRef{request.Spec.ConsumerRef})
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && apierrors.IsNotFound(err) {
		if details := status.Status().Details; details != nil && details.Kind == "namespaces" {
			text := fmt.Sprintf("there is no namespace %[1]s for the quota of %[2]s and its requests: an administrator makes it by kubectl create namespace %[1]s",
				request.Namespace, consumer)
			return &statusError{text: text, err: err}
		}
	}
	return failure("ask for quota of "+consumer, err)
}

// generatedName returns the beginning of a generated name, made of the name of a consumer.
func generatedName(consumer string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(consumer))
	const dash = 1
	name = strings.Trim(name[:min(len(name), validation.DNS1123LabelMaxLength-suffixLength-dash)], "-")
	if name == "" {
		name = "request"
	}
	return name + "-"
}

// Withdraw withdraws a request.
func Withdraw(ctx context.Context, api client.Client, key client.ObjectKey) error {
	request := &quotav1alpha1.QuotaRequest{}
	if err := api.Get(ctx, key, request); err != nil {
		return readFailure(ctx, api, key, err)
	}
	if isFinal(request) {
		return &DecidedError{Request: request}
	}
	before := request.DeepCopy()
	request.Spec.Withdrawn = true
	if err := api.Patch(ctx, request, client.MergeFrom(before)); err != nil {
		return failure(fmt.Sprintf("withdraw QuotaRequest %s", key), err)
	}
	return nil
}

// DecidedError means that a request has its decision already, and that nothing has changed.
type DecidedError struct {
	// Request is the request as it is.
	Request *quotav1alpha1.QuotaRequest
}

// Error implements error.
func (e *DecidedError) Error() string {
	return fmt.Sprintf("QuotaRequest %s is decided already: %s", client.ObjectKeyFromObject(e.Request), messageOf(e.Request))
}

// Wait returns a request once its state is known or, with untilDecided, once it has a decision. After the timeout, it
// returns the request as it is; a timeout of 0 has no end.
func Wait(
	ctx context.Context, api client.WithWatch, key client.ObjectKey, untilDecided bool, timeout time.Duration,
) (*quotav1alpha1.QuotaRequest, error) {
	return await(ctx, api, key, timeout, func(request *quotav1alpha1.QuotaRequest) bool {
		return isFinal(request) || !untilDecided && conditionOf(request) != nil && !isInTransit(request)
	})
}

// readFailure returns the error of a failed read of a request. It names the other namespaces with such a request, as
// far as the user may see them.
func readFailure(ctx context.Context, api client.Client, key client.ObjectKey, err error) error {
	if !apierrors.IsNotFound(err) {
		return failure(fmt.Sprintf("read QuotaRequest %s", key), err)
	}
	text := fmt.Sprintf("there is no QuotaRequest %[1]s in namespace %[2]s: bursar requests -n %[2]s --all lists them", key.Name, key.Namespace)
	var others quotav1alpha1.QuotaRequestList
	if api.List(ctx, &others, client.MatchingFields{"metadata.name": key.Name}) == nil && len(others.Items) > 0 {
		namespaces := make([]string, 0, len(others.Items))
		for i := range others.Items {
			namespaces = append(namespaces, "-n "+others.Items[i].Namespace)
		}
		text = fmt.Sprintf("there is no QuotaRequest %s in namespace %s: give %s", key.Name, key.Namespace, strings.Join(namespaces, " or "))
	}
	return &statusError{text: text, err: err}
}

// subject matches the object at the beginning of an error of the API server. Its name may be a generated one.
var subject = regexp.MustCompile(`^\S+( "[^"]*")? is (forbidden|invalid): `)

// failure returns the error of the API server to an action as one sentence, without the names of webhooks and of the
// object.
func failure(action string, err error) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return fmt.Errorf("%s: %w", action, err)
	}
	text := status.Status().Message
	if _, said, isByWebhook := strings.Cut(text, " denied the request: "); isByWebhook {
		text = said
	}
	text = subject.ReplaceAllString(text, "")
	return &statusError{text: action + ": " + usage.OneLine(text), err: err}
}

// statusError is an error of the API server with a text for people.
type statusError struct {
	text string
	err  error
}

func (e *statusError) Error() string { return e.text }

func (e *statusError) Unwrap() error { return e.err }
