package audit

import (
	"context"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// pages is a reader of three pages, with a claim each. An API server would need more than a thousand claims for them.
type pages struct {
	client.Reader
	read int
}

func (p *pages) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	p.read++
	claims := list.(*quotav1alpha1.ResourceClaimList)
	claims.Items = []quotav1alpha1.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(p.read)}, Spec: quotav1alpha1.ResourceClaimSpec{ConsumerRef: acme}}}
	if p.read < 3 {
		claims.Continue = strconv.Itoa(p.read)
	}
	return nil
}

func TestClaimsWhile(t *testing.T) {
	for name, tt := range map[string]struct {
		goOnUntil          int
		wantRead, wantSize int
		wantWhole          bool
	}{
		"to the end": {3, 3, 3, true},
		"stopped":    {1, 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pages{}
			claims, isWhole, err := Live{Reader: p}.ClaimsWhile(t.Context(), acme, func() bool { return p.read < tt.goOnUntil })
			if err != nil || isWhole != tt.wantWhole || len(claims) != tt.wantSize || p.read != tt.wantRead {
				t.Errorf("got %d claims of %d pages, whole: %t, error %v; want %d of %d, whole: %t", len(claims), p.read, isWhole, err, tt.wantSize, tt.wantRead, tt.wantWhole)
			}
		})
	}
}
