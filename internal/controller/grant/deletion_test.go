package grant

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// A reader of the cache finds the user as soon as the cache lacks the grant, before the event of the deletion.
func TestDeletionsFollowTheCache(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct{ mark, want string }{
		"fresh":     {now.Add(-time.Second).Format(time.RFC3339) + " anna", "anna"},
		"of denied": {now.Add(-markMax-time.Second).Format(time.RFC3339) + " anna", ""},
		"none":      {"", ""},
		"broken":    {"anna", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := NewDeletions(testclock.NewFakePassiveClock(now), logr.Discard())
			d.users.Add("uid", "an older mark")
			follow := d.Follow(func(object any) (any, error) { return object, nil })
			grant := &quotav1alpha1.ResourceGrant{ObjectMeta: metav1.ObjectMeta{
				UID: types.UID("uid"), Annotations: map[string]string{quotav1alpha1.AnnotationDeletedBy: tt.mark},
			}}
			if object, err := follow(grant); object != grant || err != nil {
				t.Fatalf("got %v, %v, want the grant", object, err)
			}
			if got := d.DeletedBy("uid"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
