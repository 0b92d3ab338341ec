package standalone

import (
	"sync"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// disableFeatures turns off what costs more here than it gives. Feature gates belong to the process.
//
// ListFromCacheSnapshot keeps a tree of all objects for each recent event, so that pages of a list need no etcd, which
// is next to this API server. DetectCacheInconsistency decides whether these trees can be trusted: every few minutes it
// reads everything from etcd again.
var disableFeatures = sync.OnceValue(func() error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.ListFromCacheSnapshot):    false,
		string(features.DetectCacheInconsistency): false,
	})
})
