package importer

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/cli/quotakinds"
)

// miloResources are the kinds that people declare for Milo. Bursar has the same ones, in the same group.
var miloResources = []string{"resourceregistrations", "resourcegrants", "grantcreationpolicies", "claimcreationpolicies"}

// readMilo reads people's declarations for Milo.
func readMilo(ctx context.Context, c *cluster) (*reading, error) {
	var all []*unstructured.Unstructured
	for _, resource := range miloResources {
		objects, err := readAll[map[string]any](ctx, c, quotav1alpha1.GroupVersion.WithResource(resource))
		if err != nil {
			return nil, err
		}
		for _, content := range objects {
			all = append(all, &unstructured.Unstructured{Object: content})
		}
	}
	return fromMilo(all, c.isTarget), nil
}

// fromMilo takes over objects as they are, in place if they are on the target cluster. Policies for claims get the mode
// Audit. Milo has no such mode.
func fromMilo(objects []*unstructured.Unstructured, inPlace bool) *reading {
	r := &reading{objectCount: len(objects)}
	made := 0
	for _, object := range objects {
		if quotakinds.IsFromPolicy(object) {
			made++
			continue
		}
		declared := quotakinds.Declaration(object)
		spec, hasSpec := declared.Object["spec"].(map[string]any)
		if declared.GetKind() == "ClaimCreationPolicy" && hasSpec {
			spec["enforcementMode"] = string(quotav1alpha1.EnforcementModeAudit)
		}
		labels := declared.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[LabelImportedFrom] = "milo"
		declared.SetLabels(labels)
		if inPlace {
			annotations := declared.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[AnnotationImportedInPlace] = "true"
			declared.SetAnnotations(annotations)
		}
		r.objects = append(r.objects, declared)
	}
	if made > 0 {
		r.note("ResourceGrants that policies made", "the policies make them again")
	}
	r.note("ResourceClaims", "Bursar makes them for the objects of policies; services have to create theirs again")
	return r
}
