package standalone

import (
	"sync"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// disableFeatures turns off features that cost more here than they give. Feature gates belong to the process.
//
// ListFromCacheSnapshot keeps a tree of all objects for each recent event, so pages of a list need no etcd. But etcd is
// next to this API server. DetectCacheInconsistency decides whether to trust these trees: every few minutes it reads
// everything from etcd again.
var disableFeatures = sync.OnceValue(func() error {
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.ListFromCacheSnapshot):    false,
		string(features.DetectCacheInconsistency): false,
	})
})
