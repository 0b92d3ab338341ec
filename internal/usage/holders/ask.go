package holders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
)

// namePrefix begins the names of QuotaUsages. Nobody sees these names.
const namePrefix = "usage-"

// Asker asks Bursar which objects count, by QuotaUsages, with the rights of its client's user.
type Asker struct {
	API client.Client
	// Namespace is a namespace in which the user may create QuotaUsages. Default: default.
	Namespace string
}

// Question selects objects. An empty field selects all.
type Question struct {
	Consumer     *quotav1alpha1.ConsumerRef
	ResourceType string
	Namespace    string
	Object       *quotav1alpha1.UnversionedObjectReference
	// OrNamespace is the namespace to ask about if the user may not ask about all.
	OrNamespace string
	// Max bounds the objects in the answer: the largest of the resource type or, without one, the latest. It is at least 1.
	Max int
}

// Counted are objects that count.
type Counted struct {
	Objects []quotav1alpha1.QuotaUsageObject
	// More is the number of visible objects beyond [Question.Max].
	More int64
	// Hidden has the objects that the user may not see, or is nil.
	Hidden *quotav1alpha1.HiddenUsage
	// mayHide means that there may be hidden objects that nobody has counted.
	mayHide bool
	// isIncomplete means that nobody has answered for some objects, and missing has the reasons as sentences.
	isIncomplete bool
	missing      []string
}

// Ask answers a question. If nobody can answer it, the answer says so, see [Counted.Notes]. An error is about the user
// or the context.
func (a *Asker) Ask(ctx context.Context, q Question) (*Counted, error) {
	found := &Counted{}
	for next := ""; ; {
		status, err := a.page(ctx, &q, int32(min(q.Max-len(found.Objects), quotav1alpha1.UsageLimitMax)), next)
		switch {
		case isDenied(err) && q.OrNamespace != "" && q.Namespace == "" && q.Object == nil:
			q.Namespace, found.mayHide = q.OrNamespace, true
			found.Objects, next = nil, ""
			continue
		case apierrors.IsUnauthorized(err) || ctx.Err() != nil:
			return nil, fmt.Errorf("ask which objects use quota: %w", err)
		case err != nil:
			found.miss(fmt.Sprintf("Objects that count without a claim are missing here: %s.", a.reason(err)))
			return found, nil
		}

		for i := range status.Objects {
			if q.Consumer != nil {
				status.Objects[i].ConsumerRef = q.Consumer
			}
		}
		found.Objects = append(found.Objects, status.Objects...)
		found.More, found.Hidden = status.Remaining, status.Hidden
		if kinds := status.Uncounted; len(kinds) > 0 {
			found.miss(fmt.Sprintf("Objects of %s are missing here: Bursar has not listed them yet, or may not.", strings.Join(kinds, ", ")))
		}
		if next = status.Continue; next == "" || len(found.Objects) >= q.Max || len(status.Objects) == 0 {
			return found, nil
		}
	}
}

// miss notes why some objects are missing.
func (c *Counted) miss(sentence string) {
	c.isIncomplete = true
	if !slices.Contains(c.missing, sentence) {
		c.missing = append(c.missing, sentence)
	}
}

// page reads one page.
func (a *Asker) page(ctx context.Context, q *Question, limit int32, next string) (*quotav1alpha1.QuotaUsageStatus, error) {
	usage := &quotav1alpha1.QuotaUsage{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix, Namespace: a.namespace()},
		Spec: quotav1alpha1.QuotaUsageSpec{
			ConsumerRef: q.Consumer, ResourceType: q.ResourceType, Namespace: q.Namespace, ResourceRef: q.Object, Limit: limit, Continue: next,
		},
	}
	if err := a.API.Create(ctx, usage, client.DryRunAll); err != nil {
		return nil, err //nolint:wrapcheck // Ask explains it
	}
	if usage.Status == nil {
		return nil, errUnanswered
	}
	return usage.Status, nil
}

func (a *Asker) namespace() string {
	if a.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return a.Namespace
}

// errUnanswered means that the API server knows the kind, and Bursar has not answered.
var errUnanswered = errors.New("no answer from Bursar")

// denial is the part of an error before the words of the webhook.
const denial = " denied the request: "

// isDenied reports whether Bursar has denied a question because of the user's rights.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), denial)
}

// reason explains why there is no answer, as a part of a sentence.
func (a *Asker) reason(err error) string {
	_, said, isByWebhook := strings.Cut(err.Error(), denial)
	status := apierrors.APIStatus(nil)
	isAboutNamespace := errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
	switch {
	case isByWebhook:
		return said
	case errors.Is(err, errUnanswered) || message.IsUnreached(err.Error()):
		return "Bursar does not answer, so only claims are listed"
	case apierrors.IsForbidden(err):
		return "you may not create QuotaUsages in namespace " + a.namespace() + ", as the role bursar-tenant-viewer permits, so only claims are listed"
	case apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !isAboutNamespace:
		return "the API server serves no QuotaUsages, because its Bursar is older, so only claims are listed"
	default:
		return strings.TrimSuffix(message.WithoutURLs(err.Error()), ".")
	}
}

// Add adds the answer to another question. An object in both is there once.
func (c *Counted) Add(other *Counted) {
	known := map[key]bool{}
	for i := range c.Objects {
		known[keyOf(&c.Objects[i])] = true
	}
	for i := range other.Objects {
		if !known[keyOf(&other.Objects[i])] {
			c.Objects = append(c.Objects, other.Objects[i])
		}
	}
	c.More += other.More
	c.mayHide = c.mayHide || other.mayHide
	for _, sentence := range other.missing {
		c.miss(sentence)
	}
	c.addHidden(other.Hidden)
}

func (c *Counted) addHidden(other *quotav1alpha1.HiddenUsage) {
	if other == nil {
		return
	}
	if c.Hidden == nil {
		c.Hidden = &quotav1alpha1.HiddenUsage{}
	}
	c.Hidden.Objects += other.Objects
	for _, amount := range other.Amounts {
		at := slices.IndexFunc(c.Hidden.Amounts, func(a quotav1alpha1.UsedAmount) bool { return a.ResourceType == amount.ResourceType })
		if at < 0 {
			c.Hidden.Amounts = append(c.Hidden.Amounts, amount)
			continue
		}
		c.Hidden.Amounts[at].Amount += amount.Amount
	}
}

// Notes are sentences about what is missing in the answer, for people. There are none if nothing is.
func (c *Counted) Notes() []string { return c.missing }
