package apiserver

import (
	"context"
	"fmt"
	"io"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// untrackedPlugin is the name of the admission plugin [untracked].
const untrackedPlugin = "UntrackedOperatorObjects"

// untracked disables the tracking of managed fields for objects of the operator. Only the operator writes them, many a
// second, and the record would be almost half of a claim. The first server-side apply begins tracking.
type untracked struct{}

var _ admission.MutationInterface = untracked{}

// registerUntracked adds the plugin to the plugins of an API server.
func registerUntracked(o *kubeoptions.AdmissionOptions) {
	o.GenericAdmission.Plugins.Register(untrackedPlugin, func(io.Reader) (admission.Interface, error) { return untracked{}, nil })
	o.GenericAdmission.RecommendedPluginOrder = append([]string{untrackedPlugin}, o.GenericAdmission.RecommendedPluginOrder...)
}

// Handles implements [admission.Interface]. Without a record from the create, updates are not recorded either.
func (untracked) Handles(operation admission.Operation) bool { return operation == admission.Create }

// Admit implements [admission.MutationInterface].
func (untracked) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetUserInfo().GetName() != OperatorUser || a.GetSubresource() != "" {
		return nil
	}
	object, err := apimeta.Accessor(a.GetObject())
	if err != nil {
		return fmt.Errorf("read the metadata of %s %s: %w", a.GetKind().Kind, a.GetName(), err)
	}
	object.SetManagedFields(nil)
	return nil
}
