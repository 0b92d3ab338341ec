package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestRestricted runs the Pods in a namespace under the Pod Security Standard "restricted".
func TestRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for name, values := range map[string]string{"defaults": "", "everything": everything} {
		for _, object := range rendered(t, values) {
			deployment, isDeployment := object.(*appsv1.Deployment)
			if !isDeployment {
				continue
			}
			pod := deployment.Spec.Template
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
			if !result.Allowed {
				t.Errorf("%s: %s: %s", name, deployment.Name, result.ForbiddenDetail())
			}
		}
	}
}
