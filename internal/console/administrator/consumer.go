package administrator

import (
	"fmt"
	"html/template"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/commandline"
	"github.com/bursar/bursar/internal/cli/consumername"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/requests"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/usage"
)

// consumerView is the page of one consumer.
type consumerView struct {
	Reference string
	Consumer  quotav1alpha1.ConsumerRef
	Quotas    []quotaView
	Grants    []grantView
	Requests  []requestView
	// Missing are sentences about what the page leaves out: parts the person may not see, and parts beyond a bound.
	Missing []string
	// HistoryURL leads to the consumer's history.
	HistoryURL string
}

// quotaView is the quota of one resource type.
type quotaView struct {
	overview.Item
	Bar template.HTML
	// Composition explains the parts of the limit.
	Composition string
	// Claims is the number of claims that hold it, or empty if it is unknown.
	Claims           string
	UsesURL, PastURL string
}

// grantView is a grant of the consumer.
type grantView struct {
	Namespace, Name, Gives string
	// Origin explains why the grant exists, and By names its writer or approver.
	Origin, By string
	// State is the reason of its condition Active, and Message explains it if the grant does not count.
	State, Message string
	Counts         bool
	Ends           *time.Time
}

// requestView is a request of the consumer for more.
type requestView struct {
	Namespace, Name, URL, Asks, Reason, By, State, Class, Message string
	Created                                                       time.Time
}

func (a Area) consumer(r *web.Request) (web.Answer, error) {
	reference := r.Query("name")
	name, err := consumername.Parse(reference)
	if err != nil {
		return nil, &web.StatusError{Status: http.StatusNotFound, Message: "There is no such consumer: " + err.Error() + "."}
	}
	found, err := overview.Read(r.Context(), r.API(), overview.Query{Consumer: reference, Max: listMax})
	if apierrors.IsForbidden(err) {
		return closed("Consumer", "You may not list the quota of all consumers, so this page cannot show one of them. "+
			"Your own quota is on the page My quota."), nil
	}
	if err != nil {
		return nil, err
	}
	ref, _ := name.Full()
	if len(found.Items) > 0 {
		ref = found.Items[0].Usage.Consumer
	}
	view := &consumerView{Reference: overview.ReferenceTo(ref), Consumer: ref}
	view.HistoryURL = web.Path("/history", "consumer", view.Reference)
	if err := view.read(r, found); err != nil {
		return nil, err
	}
	command := commandline.Join("bursar", "usage", "--all-namespaces", "--consumer", ref.Kind+"/"+ref.Name)
	return web.Page{Template: "administrator-consumer", Title: ref.Kind + "/" + ref.Name, Data: view, Command: command}, nil
}

// read reads the rest of the page. Parts that the person may not read become sentences.
func (v *consumerView) read(r *web.Request, found *overview.Overview) error {
	named := client.MatchingFields{"spec.consumerRef.kind": v.Consumer.Kind, "spec.consumerRef.name": v.Consumer.Name}
	var grants quotav1alpha1.ResourceGrantList
	if err := v.list(r, &grants, "grants", named); err != nil {
		return err
	}
	var buckets quotav1alpha1.AllowanceBucketList
	if err := v.list(r, &buckets, "buckets", named); err != nil {
		return err
	}
	var requests quotav1alpha1.QuotaRequestList
	if err := v.list(r, &requests, "requests", client.MatchingFields{"spec.consumerRef.name": v.Consumer.Name}); err != nil {
		return err
	}
	claims := map[string]string{}
	for i := range buckets.Items {
		if spec := &buckets.Items[i].Spec; spec.ConsumerRef == v.Consumer && len(spec.Dimensions) == 0 {
			claims[spec.ResourceType] = fmt.Sprint(buckets.Items[i].Status.ClaimCount)
		}
	}
	now := time.Now()
	for _, item := range found.Items {
		if item.Usage.Consumer != v.Consumer {
			continue // a short name may stand for several consumers
		}
		v.Quotas = append(v.Quotas, quotaView{
			Item: item, Bar: barOf(item.Title, item.Usage, item.UsedText, item.LimitText), Claims: claims[item.ResourceType],
			Composition: usage.Composition(item.Unit, item.Limit, usage.PartsOf(item.ResourceType, item.Grants, grants.Items, now)),
			UsesURL:     web.Path("/uses", "consumer", v.Reference, "type", item.ResourceType),
			PastURL:     web.Path("/history", "consumer", v.Reference, "type", item.ResourceType),
		})
	}
	for i := range grants.Items {
		if grants.Items[i].Spec.ConsumerRef == v.Consumer {
			v.Grants = append(v.Grants, grantViewOf(&grants.Items[i], now))
		}
	}
	for i := range requests.Items {
		if requests.Items[i].Spec.ConsumerRef == v.Consumer {
			v.Requests = append(v.Requests, requestViewOf(&requests.Items[i]))
		}
	}
	return nil
}

// list lists objects in all namespaces. It notes if the person may not, or there are too many.
func (v *consumerView) list(r *web.Request, list client.ObjectList, what string, selection client.ListOption) error {
	err := r.API().List(r.Context(), list, selection, client.Limit(listMax))
	switch {
	case usage.IsOutOfReach(err):
		v.Missing = append(v.Missing, fmt.Sprintf("You may not list the %s in all namespaces, so this page leaves them out.", what))
		return nil
	case err != nil:
		return fmt.Errorf("list the %s: %w", what, err)
	case list.GetContinue() != "":
		v.Missing = append(v.Missing, fmt.Sprintf("There are more than %d %s; the others are left out.", listMax, what))
	}
	return nil
}

func grantViewOf(grant *quotav1alpha1.ResourceGrant, now time.Time) grantView {
	origin := usage.OriginOf(grant)
	part := usage.Part{Origin: origin}
	part.Grant.Name = grant.Name
	view := grantView{Namespace: grant.Namespace, Name: grant.Name, Gives: grant.Status.Gives, Origin: part.Name(), By: origin.ChangedBy}
	if origin.Policy != "" {
		view.Origin = "GrantCreationPolicy " + origin.Policy + ", for " + origin.Object
		view.By = ""
	}
	if active := apimeta.FindStatusCondition(grant.Status.Conditions, quotav1alpha1.ConditionActive); active != nil {
		view.State, view.Counts = active.Reason, active.Status == "True"
		if !view.Counts {
			view.Message = active.Message
		}
	}
	if end := grant.Spec.NextEnd(now); !end.IsZero() {
		view.Ends = &end
	}
	return view
}

func requestViewOf(request *quotav1alpha1.QuotaRequest) requestView {
	view := requestView{
		Namespace: request.Namespace, Name: request.Name, Asks: requests.Asks(request), Reason: request.Spec.Reason,
		URL: requests.URL(request), Created: request.CreationTimestamp.Time,
	}
	view.State, view.Class = requests.State(request)
	if by := request.Spec.Requester; by != nil {
		view.By = by.Username
	}
	if approved := apimeta.FindStatusCondition(request.Status.Conditions, quotav1alpha1.ConditionApproved); approved != nil {
		view.Message = approved.Message
	}
	return view
}
