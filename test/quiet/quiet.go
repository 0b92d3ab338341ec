// Package quiet silences what client libraries log in tests: connections that are refused, and watches
// that break, while servers start and end.
package quiet

import (
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Libraries silences all of them in this process.
func Libraries() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}
