package standalone

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

func TestDisableFeatures(t *testing.T) {
	if err := disableFeatures(); err != nil {
		t.Fatal(err)
	}
	for _, feature := range []featuregate.Feature{features.ListFromCacheSnapshot, features.DetectCacheInconsistency} {
		if utilfeature.DefaultFeatureGate.Enabled(feature) {
			t.Errorf("%s is enabled", feature)
		}
	}
}
