package administrator

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/console/chart"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/quantity"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// allocationsMax bounds the allocations of the page. The status of an allocation has a line for each member namespace.
	allocationsMax = 50
	// namespacesMax bounds the namespaces to compare with ResourceQuotas.
	namespacesMax = 2000
	// membersMax bounds the namespaces in the list of each allocation.
	membersMax = 20
)

// capsView is the page of caps and definitions.
type capsView struct {
	Allocations []allocationView
	IsCut       bool
	Definitions []definitionView
	// Unquoted are namespaces without any ResourceQuota, of Unlimited in all. Missing explains what the page leaves out.
	Unquoted  []namespaceLink
	Unlimited int
	Missing   []string
}

type namespaceLink struct{ Name, URL, Text string }

// allocationView is a cap.
type allocationView struct {
	Name string
	// Members is the number of namespaces with a share, and Listed are those with the largest shares.
	Members int
	Listed  []namespaceLink
	Amounts []amountView
	// Problems are the messages of conditions that need attention.
	Problems  []string
	Unlimited []namespaceLink
}

// amountView is one resource of a cap or of a ResourceQuota.
type amountView struct {
	Resource, Used, Hard, Percent string
	Bar                           template.HTML
	// Word is the meaning of the bar's colour.
	Word string
	// Composition explains the parts of the amount.
	Composition string
}

// definitionView is a definition of a QuotaServiceConfig.
type definitionView struct {
	Config, Name, Mode, Hard string
	Namespaces               int32
	Problem                  string
}

func (a Area) caps(r *web.Request) (web.Answer, error) {
	if namespace := r.Query("namespace"); web.CheckNamespace(namespace) == nil {
		return web.Redirect{To: "/caps/" + namespace}, nil
	}
	var list quotav1alpha1.ResourceQuotaAllocationList
	err := r.API().List(r.Context(), &list, client.Limit(allocationsMax))
	if usage.IsOutOfReach(err) {
		return closed("Caps", "You may not list the caps on ResourceQuotas (resourcequotaallocations). Ask an administrator of the platform: "+
			"the roles bursar-quota-manager and bursar-platform-admin read them. The LocalResourceQuotaAllocations of "+
			"your namespaces show the rest of a cap."), nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the ResourceQuotaAllocations: %w", err)
	}
	view := &capsView{IsCut: list.Continue != ""}
	for i := range list.Items {
		view.Allocations = append(view.Allocations, allocationViewOf(&list.Items[i]))
	}
	if err := view.readDefinitions(r); err != nil {
		return nil, err
	}
	if err := view.readUnquoted(r); err != nil {
		return nil, err
	}
	return web.Page{
		Template: "administrator-caps", Title: "Caps and increases", Data: view,
		Command: "kubectl get resourcequotaallocations,quotaserviceconfigs",
		Live:    []web.Watch{{Resource: "resourcequotaallocations"}, {Resource: "quotaincreases"}},
	}, nil
}

func allocationViewOf(allocation *quotav1alpha1.ResourceQuotaAllocation) allocationView {
	status := &allocation.Status
	view := allocationView{
		Name: allocation.Name, Members: len(status.UsedByProject), Amounts: amountsOf(status.Allocated.Hard, status.Allocated.Used, nil),
	}
	if len(status.Allocated.Hard) == 0 {
		view.Amounts = amountsOf(allocation.Spec.Allocation.Hard, nil, nil)
	}
	for _, c := range status.Conditions {
		if isBad := c.Type == quotav1alpha1.ConditionExceeded; (c.Status == metav1.ConditionTrue) == isBad {
			view.Problems = append(view.Problems, c.Reason+": "+c.Message)
		}
	}
	for _, each := range status.UsedByProject[:min(len(status.UsedByProject), membersMax)] {
		view.Listed = append(view.Listed, linkTo(each.Namespace, listText(each.Used)))
	}
	for _, each := range status.UnlimitedNamespaces {
		names := make([]string, 0, len(each.Resources))
		for _, name := range each.Resources {
			names = append(names, string(name))
		}
		view.Unlimited = append(view.Unlimited, linkTo(each.Namespace, "no limit of "+strings.Join(names, ", ")))
	}
	return view
}

func linkTo(namespace, text string) namespaceLink {
	return namespaceLink{Name: namespace, URL: web.Path("/caps/" + escaped(namespace)), Text: text}
}

// listText writes a resource list in one line.
func listText(list corev1.ResourceList) string {
	texts := make([]string, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		texts = append(texts, string(name)+" "+quantity.Text(amount))
	}
	return strings.Join(texts, ", ")
}

// amountsOf returns the resources of a hard list, in their order.
func amountsOf(hard, used corev1.ResourceList, composition map[corev1.ResourceName]string) []amountView {
	var amounts []amountView
	for _, name := range slices.Sorted(maps.Keys(hard)) {
		h, u := hard[name], used[name]
		parts := quantity.Proportional(u, h)
		of, usedText, hardText := usage.Usage{Used: parts[0], Limit: parts[1]}, quantity.Text(u), quantity.Text(h)
		view := amountView{
			Resource: string(name), Used: usedText, Hard: hardText, Composition: composition[name],
			Bar: barOf(string(name), of, usedText, hardText), Percent: cmp.Or(message.Percent(ledger.Amount(of.Used), ledger.Amount(of.Limit)), "-"),
			Word: chart.Word(of.Level(usage.Below, quotav1alpha1.AlertThresholdDefault)),
		}
		amounts = append(amounts, view)
	}
	return amounts
}

// readDefinitions adds the definitions of ResourceQuotas.
func (v *capsView) readDefinitions(r *web.Request) error {
	var configs openmcpv1alpha1.QuotaServiceConfigList
	err := r.API().List(r.Context(), &configs, client.Limit(allocationsMax))
	if usage.IsOutOfReach(err) {
		v.Missing = append(v.Missing, "You may not list the definitions of ResourceQuotas (quotaserviceconfigs).")
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the QuotaServiceConfigs: %w", err)
	}
	if configs.Continue != "" {
		v.Missing = append(v.Missing, fmt.Sprintf("There are more than %d QuotaServiceConfigs; the definitions of the others are left out.", allocationsMax))
	}
	for i := range configs.Items {
		config := &configs.Items[i]
		for j := range config.Spec.Quotas {
			definition := &config.Spec.Quotas[j]
			view := definitionView{
				Config: config.Name, Name: definition.Name, Mode: string(definition.Mode), Hard: listText(definition.Template.Spec.Hard),
			}
			if j < len(config.Status.Quotas) && config.Status.Quotas[j].Name == definition.Name {
				view.Namespaces = config.Status.Quotas[j].Namespaces
				view.Problem = problemOf(config.Status.Quotas[j].Conditions, openmcpv1alpha1.ConditionReady)
			}
			v.Definitions = append(v.Definitions, view)
		}
	}
	return nil
}

// readUnquoted adds the namespaces without a ResourceQuota.
func (v *capsView) readUnquoted(r *web.Request) error {
	var namespaces, quotas metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	quotas.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ResourceQuotaList"))
	for _, list := range []*metav1.PartialObjectMetadataList{&namespaces, &quotas} {
		err := r.API().List(r.Context(), list, client.Limit(namespacesMax))
		if usage.IsOutOfReach(err) {
			v.Missing = append(v.Missing, "You may not list all namespaces and ResourceQuotas, so only caps show the namespaces without one. "+
				"A role such as view, bound in the cluster, permits it.")
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the namespaces and ResourceQuotas: %w", err)
		}
		if list.Continue != "" {
			v.Missing = append(v.Missing,
				fmt.Sprintf("There are more than %d namespaces or ResourceQuotas, so this page does not compare them.", namespacesMax))
			return nil
		}
	}
	isQuoted := map[string]bool{}
	for i := range quotas.Items {
		isQuoted[quotas.Items[i].Namespace] = true
	}
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		if isQuoted[name] {
			continue
		}
		if v.Unlimited++; len(v.Unquoted) < listMax {
			v.Unquoted = append(v.Unquoted, linkTo(name, ""))
		}
	}
	return nil
}

// reasonOf returns the reason and the message of a condition.
func reasonOf(all []metav1.Condition, conditionType string) (reason, message string) {
	if c := apimeta.FindStatusCondition(all, conditionType); c != nil {
		return c.Reason, c.Message
	}
	return "Pending", ""
}
