package administrator

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	openmcpv1alpha1 "github.com/bursar/bursar/api/openmcp/v1alpha1"
	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/quantity"
	"github.com/bursar/bursar/internal/usage"
)

// namespaceView is the page of a namespace, with the composition of its ResourceQuotas.
type namespaceView struct {
	Name string
	// Base, Mode and Config are the labels of the namespace about its definition, and Use names the increase that counts
	// in singular mode.
	Base, Mode, Config, Use string
	// IsIgnored reports whether Bursar must leave the namespace as it is.
	IsIgnored bool
	Quotas    []resourceQuotaView
	Increases []increaseView
	Caps      []localCapView
	Missing   []string
}

type resourceQuotaView struct {
	Name string
	// Definition made the ResourceQuota, or it is empty.
	Definition string
	Amounts    []amountView
}

type increaseView struct{ Name, Requested, Effect, State, Message, ToBeDeleted string }

type localCapView struct {
	Name    string
	Amounts []localAmountView
}

// localAmountView is one resource of a cap, with the room of a namespace under it.
type localAmountView struct{ Resource, Here, All, Cap, Available string }

func (a Area) namespace(r *web.Request) (web.Answer, error) {
	name := r.PathValue("namespace")
	if err := web.CheckNamespace(name); err != nil {
		return nil, err
	}
	view := &namespaceView{Name: name}
	reads := []func(*web.Request) (bool, error){view.readLabels, view.readQuotas, view.readIncreases, view.readCaps}
	readable := 0
	for _, read := range reads {
		isReadable, err := read(r)
		if err != nil {
			return nil, err
		}
		if isReadable {
			readable++
		}
	}
	if readable == 0 {
		return closed("Namespace", "You may not see namespace "+name+" or its limits. "+
			"Ask an administrator of the namespace for the role view."), nil
	}
	return web.Page{
		Template: "administrator-namespace", Title: "Namespace " + name, Data: view,
		Command: "kubectl get resourcequotas,quotaincreases,localresourcequotaallocations -o wide -n " + name,
		Live:    []web.Watch{{Resource: "quotaincreases", Namespace: name}},
	}, nil
}

// missing notes what the person may not see. It returns any other error.
func (v *namespaceView) missing(err error, what string) (isReadable bool, _ error) {
	if usage.IsOutOfReach(err) {
		v.Missing = append(v.Missing, "You may not see "+what+" here, or there is none.")
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", what, err)
	}
	return true, nil
}

// list lists objects in the namespace.
func (v *namespaceView) list(r *web.Request, list client.ObjectList, what string) (isReadable bool, _ error) {
	isReadable, err := v.missing(r.API().List(r.Context(), list, client.InNamespace(v.Name), client.Limit(listMax)), what)
	if isReadable && list.GetContinue() != "" {
		v.Missing = append(v.Missing, fmt.Sprintf("There are more than %d of %s; the others are left out.", listMax, what))
	}
	return isReadable, err
}

func (v *namespaceView) readLabels(r *web.Request) (bool, error) {
	var namespace metav1.PartialObjectMetadata
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if isReadable, err := v.missing(r.API().Get(r.Context(), client.ObjectKey{Name: v.Name}, &namespace), "the namespace"); !isReadable {
		return false, err
	}
	labels := namespace.Labels
	v.Base, v.Mode = labels[openmcpv1alpha1.LabelBase], labels[openmcpv1alpha1.LabelMode]
	v.Config, v.Use = labels[openmcpv1alpha1.LabelManagedBy], labels[openmcpv1alpha1.LabelUse]
	for _, key := range []string{openmcpv1alpha1.AnnotationOperation, openmcpv1alpha1.AnnotationQuotaOperation} {
		v.IsIgnored = v.IsIgnored || namespace.Annotations[key] == openmcpv1alpha1.OperationIgnore
	}
	return true, nil
}

func (v *namespaceView) readQuotas(r *web.Request) (bool, error) {
	var list corev1.ResourceQuotaList
	if isReadable, err := v.list(r, &list, "the ResourceQuotas"); !isReadable {
		return false, err
	}
	for i := range list.Items {
		quota := &list.Items[i]
		compositions := compositionsIn(quota.Annotations[openmcpv1alpha1.AnnotationComposition])
		view := resourceQuotaView{Name: quota.Name, Amounts: amountsOf(quota.Spec.Hard, quota.Status.Used, compositions)}
		if config := quota.Labels[openmcpv1alpha1.LabelManagedBy]; config != "" {
			view.Definition = config + ", definition " + quota.Labels[openmcpv1alpha1.LabelDefinition]
		}
		v.Quotas = append(v.Quotas, view)
	}
	return true, nil
}

// compositionsIn reads the annotation with the composition of each amount, see [increase.Text].
func compositionsIn(annotation string) map[corev1.ResourceName]string {
	compositions := map[corev1.ResourceName]string{}
	for _, each := range strings.Split(annotation, "; ") {
		if name, composition, isOne := strings.Cut(each, ": "); isOne {
			compositions[corev1.ResourceName(name)] = composition
		}
	}
	return compositions
}

func (v *namespaceView) readIncreases(r *web.Request) (bool, error) {
	var list openmcpv1alpha1.QuotaIncreaseList
	if isReadable, err := v.list(r, &list, "the QuotaIncreases"); !isReadable {
		return false, err
	}
	for i := range list.Items {
		object := &list.Items[i]
		view := increaseView{
			Name: object.Name, Requested: listText(object.Spec.Hard), Effect: object.Annotations[openmcpv1alpha1.AnnotationEffect],
			ToBeDeleted: object.Annotations[openmcpv1alpha1.AnnotationToBeDeleted],
		}
		view.State, view.Message = reasonOf(object.Status.Conditions, openmcpv1alpha1.ConditionEffective)
		v.Increases = append(v.Increases, view)
	}
	return true, nil
}

func (v *namespaceView) readCaps(r *web.Request) (bool, error) {
	var list quotav1alpha1.LocalResourceQuotaAllocationList
	if isReadable, err := v.list(r, &list, "the caps"); !isReadable {
		return false, err
	}
	for i := range list.Items {
		status := &list.Items[i].Status
		view := localCapView{Name: list.Items[i].Name}
		for _, each := range amountsOf(status.Allocated.Hard, status.Allocated.Used, nil) {
			name := corev1.ResourceName(each.Resource)
			here, available := status.Used[name], status.Available[name]
			view.Amounts = append(view.Amounts, localAmountView{
				Resource: each.Resource, Here: quantity.Text(here), All: each.Used, Cap: each.Hard, Available: quantity.Text(available),
			})
		}
		v.Caps = append(v.Caps, view)
	}
	return true, nil
}
