package engine_test

import (
	"testing"
	"testing/synctest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/lifecycle"
)

// onCreates is a policy with a charge of a hundred for every created fleet.
func onCreates() *quotav1alpha1.ClaimCreationPolicy {
	p := fleets()
	p.Name = "q"
	template := &p.Spec.Target.ResourceClaimTemplate
	template.Metadata.Name = "other-claim-{{.trigger.metadata.name}}"
	template.Spec.Requests[0] = quotav1alpha1.ResourceRequestTemplate{ResourceType: "t", Amount: 100}
	return p
}

// When a claim of an object goes, the object gets its missing claim of the same policy. Of another policy it may have
// been free since its creation.
func TestClaimThatGoes(t *testing.T) {
	tests := map[string]struct {
		reason string
		policy func() *quotav1alpha1.ClaimCreationPolicy
		want   []string
	}{
		"of a policy that is gone": {
			"what its claim held is free",
			func() *quotav1alpha1.ClaimCreationPolicy { return nil },
			nil,
		},
		"of a policy for creates": {
			"it is made again",
			fleets,
			[]string{"acme uses 2, 0 in flight", "claim of acme for 2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.paid(acme, 2)
				c := s.run(tt.policy(), fleet("1", "acme", 2))
				if errs := c.Engine.Catalog.SetPolicy(onCreates()); len(errs) > 0 {
					t.Fatal(errs)
				}
				synctest.Wait()
				s.deleteClaim(c)
				s.wantFinally(tt.reason, tt.want...)
			})
		})
	}
}

// deleteClaim deletes the claim of the fleet, regardless of permissions.
func (s *stage) deleteClaim(c *lifecycle.Controller) {
	s.Helper()
	s.must(c.Engine.Client.Delete(s.Context(), intent().Claim, "uid-claim-a"))
}
