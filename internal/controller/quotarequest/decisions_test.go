package quotarequest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/quotarequest"
)

const app = "system:serviceaccount:shop:app"

// decided is an API server with decisions only.
type decided struct {
	client.Reader
	decisions []quotav1alpha1.QuotaDecision
}

func (d *decided) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*quotav1alpha1.QuotaDecisionList).Items = d.decisions
	return nil
}

// teamRights lets the members of a team create Pods in the namespace shop, if the API server answers.
type teamRights struct{ err error }

func (p teamRights) May(_ context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	isMember := strings.Contains(strings.Join(who.Groups, " "), "team-a")
	return isMember && what.Namespace == "shop" && what.Verb == "create" && what.Resource == "pods" && what.Subresource == "", p.err
}

// TestDecisionsOfOnePerson counts approvals that were made at the same moment, so no review saw the other.
func TestDecisionsOfOnePerson(t *testing.T) {
	by := func(name string, groups ...string) *quotav1alpha1.RequestUser {
		return &quotav1alpha1.RequestUser{Username: name, Groups: groups}
	}
	olga, ann := by("olga", "team-a"), by("ann", "finance")
	for name, tt := range map[string]struct {
		reason    string
		approvals int32
		approvers []*quotav1alpha1.RequestUser
		rights    teamRights
		want      string
		wantSame  string
		wantErr   bool
	}{
		"two people":           {"they are different", 2, []*quotav1alpha1.RequestUser{olga, ann}, teamRights{}, "olga ann", "", false},
		"and her account":      {"it acts for her", 2, []*quotav1alpha1.RequestUser{olga, by(app)}, teamRights{}, "olga", "; the approval by " + app + " does not count, because olga may act for " + app, false},
		"account first":        {"the earlier one counts", 2, []*quotav1alpha1.RequestUser{by(app), olga}, teamRights{}, app, "; the approval by olga does not count, because olga may act for " + app, false},
		"with another":         {"the other one counts", 2, []*quotav1alpha1.RequestUser{olga, by(app), ann}, teamRights{}, "olga ann", "; the approval by " + app + " does not count, because olga may act for " + app, false},
		"one is enough":        {"nothing depends on the second", 1, []*quotav1alpha1.RequestUser{olga, by(app)}, teamRights{}, "olga " + app, "", false},
		"unknown rights":       {"nobody is approved by mistake", 2, []*quotav1alpha1.RequestUser{olga, by(app)}, teamRights{errors.New("no answer")}, "", "", true},
		"no groups, as before": {"an old decision has none", 2, []*quotav1alpha1.RequestUser{by("olga"), by(app)}, teamRights{}, "olga " + app, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := &decided{}
			for i, user := range tt.approvers {
				server.decisions = append(server.decisions, quotav1alpha1.QuotaDecision{
					ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0))},
					Spec: quotav1alpha1.QuotaDecisionSpec{
						RequestRef: quotav1alpha1.DecidedRequestRef{Name: "more", UID: "u"}, Decision: quotav1alpha1.DecisionApprove, DecidedBy: user,
					},
				})
			}
			request := &quotav1alpha1.QuotaRequest{ObjectMeta: metav1.ObjectMeta{Name: "more", UID: "u"}}
			request.Spec.Requester = by("tom")
			r := &Reconciler{Live: server, Permissions: tt.rights}

			counting, same, err := r.decisions(t.Context(), request, quotarequest.Rule{Approvals: tt.approvals})

			var names []string
			for i := range counting {
				names = append(names, counting[i].Spec.DecidedBy.Username)
			}
			if got := strings.Join(names, " "); got != tt.want || same != tt.wantSame || (err != nil) != tt.wantErr {
				t.Errorf("%s: got %q, %q, error %v; want %q, %q", tt.reason, got, same, err, tt.want, tt.wantSame)
			}
		})
	}
}
