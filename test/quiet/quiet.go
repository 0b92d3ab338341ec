// Package quiet silences what client libraries log in tests: connections that are refused, and watches
// that break, while servers start and end.
package quiet

import (
	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Libraries silences all of them in this process. They do not slow down either because of errors, by a
// clock that is another one in a bubble of package synctest.
func Libraries() {
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}
