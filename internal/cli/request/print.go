package request

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/usage"
)

// Print writes the amounts and the state of a request, or the object in a format.
func Print(w io.Writer, request *quotav1alpha1.QuotaRequest, format usage.Format) error {
	var err error
	switch format {
	case usage.FormatJSON, usage.FormatYAML:
		request = request.DeepCopy()
		request.SetGroupVersionKind(quotav1alpha1.GroupVersion.WithKind("QuotaRequest"))
		request.ManagedFields = nil
		err = usage.Encode(w, request, format)
	default:
		text := fmt.Sprintf("QuotaRequest %s/%s asks for %s", request.Namespace, request.Name, asks(request))
		if until := request.Spec.Until; until != nil {
			text += " until " + inUTC(until)
		}
		_, err = fmt.Fprintf(w, "%s.\n%s", text, StateText(request))
	}
	return err
}

// StateText returns the state of a request, as a sentence.
func StateText(request *quotav1alpha1.QuotaRequest) string {
	state := stateOf(request)
	if state == "" {
		return fmt.Sprintf("It has no state yet; bursar requests -n %s shows it later.\n", request.Namespace)
	}
	return fmt.Sprintf("It is %s: %s.\n", state, strings.TrimSuffix(messageOf(request), "."))
}

func inUTC(t *metav1.Time) string { return t.UTC().Format(time.RFC3339) }
