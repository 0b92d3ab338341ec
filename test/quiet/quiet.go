// Package quiet silences the logs of client libraries in tests: refused connections and broken watches while servers
// start and end.
package quiet

import (
	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Libraries silences all of them in this process. Errors do not slow them down either: their delays use a clock other
// than the one in a bubble of package synctest.
func Libraries() {
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}
