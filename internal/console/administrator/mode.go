package administrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/backtest"
	"github.com/bursar/bursar/internal/console/fleet"
	"github.com/bursar/bursar/internal/console/overview"
	"github.com/bursar/bursar/internal/console/web"
)

const (
	// replayMax bounds the claims in a preview: ten requests. The command has no bound.
	replayMax = 5000
	// shownMax bounds the rows of each table of a preview.
	shownMax = 20
)

// modeChange is the preview of another mode, and the form to change it.
type modeChange struct {
	Name     string
	From, To quotav1alpha1.EnforcementMode
	About    string
	// UID and Generation identify the policy in the preview. Another spec needs another preview; a change of only its
	// status does not.
	UID        types.UID
	Generation int64
	// MayChange reports whether the person may change policies.
	MayChange bool
	// Replay is nil unless the mode would begin to deny.
	Replay *replay
	Full   []fullType
	// Problem explains an invalid form, and Status is the status of its answer.
	Problem string
	Status  int
	Command string
}

// replay is the outcome for a policy that had enforced from the start.
type replay struct {
	// Missing explains why it is unknown.
	Missing string
	// Outcome says how many objects the policy would have denied.
	Outcome string
	// Total is the number of objects that the policy would have denied. Denied are the first of them.
	Total  int
	Denied []deniedView
	// Lacking are the quotas too small for the existing objects.
	Lacking []lackingView
}

type deniedView struct {
	Object, Consumer, ConsumerURL, ResourceType, Requested, Used, Limit string
	ClaimedAt                                                           time.Time
}

type lackingView struct{ Consumer, ConsumerURL, ResourceType, Limit, Needed string }

// fullType is a resource type of the policy, with the consumers who have nothing left of it.
type fullType struct {
	ResourceType string
	Total        int
	Rows         []fleetRow
	MoreURL      string
}

// changeTo returns the preview of a mode, or nil for none, an unknown one, or the current one.
func (a Area) changeTo(r *web.Request, policy *quotav1alpha1.ClaimCreationPolicy, to quotav1alpha1.EnforcementMode) (*modeChange, error) {
	at := slices.IndexFunc(modes, func(m modeChoice) bool { return m.Mode == to })
	if at < 0 || to == modeOf(policy) {
		return nil, nil
	}
	change := &modeChange{
		Name: policy.Name, From: modeOf(policy), To: to, About: modes[at].About, UID: policy.UID, Generation: policy.Generation,
		MayChange: r.May(patchPolicies),
		Command:   "kubectl patch claimcreationpolicies " + policy.Name + ` --type merge -p '{"spec":{"enforcementMode":"` + string(to) + `"}}'`,
	}
	if to != quotav1alpha1.EnforcementModeEnforce {
		return change, nil
	}
	change.Command = "bursar policy backtest " + policy.Name + "\n" + change.Command
	var err error
	if change.Replay, err = replayOf(r, policy.Name); err != nil {
		return nil, err
	}
	if copied, isRead := a.Copies.For(r); isRead {
		for _, resourceType := range policy.Spec.Target.ResourceClaimTemplate.Spec.ResourceTypes() {
			change.Full = append(change.Full, fullOf(copied, resourceType))
		}
	}
	return change, nil
}

// fullOf returns the consumers with nothing left of a resource type.
func fullOf(copied *fleet.Copy, resourceType string) fullType {
	result := copied.Find(fleet.Query{ResourceType: resourceType, HasNoRoom: true})
	full := fullType{ResourceType: resourceType, Total: result.Total, MoreURL: web.Path("/fleet", "type", resourceType)}
	for _, found := range result.Rows[:min(len(result.Rows), shownMax)] {
		full.Rows = append(full.Rows, rowOf(found))
	}
	return full
}

// replayOf replays the claims of a policy.
func replayOf(r *web.Request, policy string) (*replay, error) {
	result, err := backtest.Run(r.Context(), r.API(), policy, replayMax)
	switch {
	case errors.Is(err, backtest.ErrTooMany):
		missing := fmt.Sprintf("There are more than %d claims, so this page does not replay them. The command below does.", replayMax)
		return &replay{Missing: missing}, nil
	case apierrors.IsForbidden(err):
		return &replay{Missing: "You may not list all claims and grants, so this page does not know which objects the policy would have denied."}, nil
	case err != nil:
		return nil, err
	}
	names, err := overview.ReadNames(r.Context(), r.API())
	if err != nil {
		return nil, err
	}
	amount := func(resourceType string, amount int64) string {
		unit, _ := names.Unit(resourceType)
		return unit.Amount(amount)
	}
	found := &replay{Outcome: backtest.Outcome(len(result.Denied), result.Objects), Total: len(result.Denied)}
	for _, d := range result.Denied[:min(len(result.Denied), shownMax)] {
		object := d.Object.Kind + " " + d.Object.Name
		if d.Object.Namespace != "" {
			object = d.Object.Kind + " " + d.Object.Namespace + "/" + d.Object.Name
		}
		found.Denied = append(found.Denied, deniedView{
			Object: object, ClaimedAt: d.ClaimedAt.Time, ResourceType: d.ResourceType,
			Consumer: message.Consumer(d.ConsumerRef), ConsumerURL: consumerURL(overview.ReferenceTo(d.ConsumerRef)),
			Requested: amount(d.ResourceType, d.Requested), Used: amount(d.ResourceType, d.Used), Limit: amount(d.ResourceType, d.Limit),
		})
	}
	for _, l := range result.Lacking[:min(len(result.Lacking), shownMax)] {
		found.Lacking = append(found.Lacking, lackingView{
			Consumer: message.Consumer(l.ConsumerRef), ConsumerURL: consumerURL(overview.ReferenceTo(l.ConsumerRef)), ResourceType: l.ResourceType,
			Limit: amount(l.ResourceType, l.Limit), Needed: amount(l.ResourceType, l.Needed),
		})
	}
	return found, nil
}

// changeMode changes the mode of a policy, if the person confirms it and the policy is the one of the preview.
func (a Area) changeMode(r *web.Request) (web.Answer, error) {
	policy := &quotav1alpha1.ClaimCreationPolicy{}
	if page, err := a.readPolicy(r, policy); page != nil || err != nil {
		return page, err
	}
	to := quotav1alpha1.EnforcementMode(r.Form("mode"))
	if !slices.ContainsFunc(modes, func(m modeChoice) bool { return m.Mode == to }) {
		return nil, web.Invalid("There is no such mode. Nothing was changed.")
	}
	err := web.Confirmed(r, policy.Name)
	if err == nil {
		generation, _ := strconv.ParseInt(r.Form("generation"), 10, 64) // another text is no generation of a policy
		err = setMode(r.Context(), r.API(), policy.Name, types.UID(r.Form("uid")), generation, to)
	}
	if err == nil {
		notice := fmt.Sprintf("ClaimCreationPolicy %s has the mode %s now.", policy.Name, to)
		return web.Redirect{To: "/policies/" + escaped(policy.Name), Notice: notice}, nil
	}
	status, problem, isKnown := problemWith(err, policy.Name)
	if !isKnown {
		return nil, err
	}
	if err := r.API().Get(r.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
		return nil, fmt.Errorf("read the ClaimCreationPolicy: %w", err)
	}
	change, err := a.changeTo(r, policy, to)
	if err != nil {
		return nil, err
	}
	if change == nil { // somebody else has made the same change
		return nil, &web.StatusError{Status: status, Message: problem}
	}
	change.Problem, change.Status = problem, status
	return policyPage(policy, change), nil
}

// errStale reports that the policy has changed since the preview.
var errStale = errors.New("the policy has changed since the preview")

// setMode sets the mode of the policy with a UID and a generation. The status of a policy changes by itself, so the
// version of the patch is the present one.
func setMode(ctx context.Context, api client.Client, name string, uid types.UID, generation int64, to quotav1alpha1.EnforcementMode) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		policy := &quotav1alpha1.ClaimCreationPolicy{}
		if err := api.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
			return err
		}
		if policy.UID != uid || policy.Generation != generation {
			return errStale
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": policy.ResourceVersion}, "spec": map[string]any{"enforcementMode": to},
		})
		if err != nil {
			return fmt.Errorf("encode the change: %w", err)
		}
		return api.Patch(ctx, policy, client.RawPatch(types.MergePatchType, patch))
	})
}

// problemWith explains an invalid form, and returns the status of the answer. isKnown is false for other errors.
func problemWith(err error, name string) (status int, problem string, isKnown bool) {
	var invalid *web.StatusError
	switch {
	case errors.As(err, &invalid):
		return invalid.Status, invalid.Message, true
	case errors.Is(err, errStale) || apierrors.IsConflict(err):
		return http.StatusConflict, fmt.Sprintf("Somebody changed ClaimCreationPolicy %s since you opened this page. "+
			"Your change was not made. The preview below shows the present policy: read it, and confirm again.", name), true
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		status := http.StatusUnprocessableEntity
		if apierrors.IsForbidden(err) {
			status = http.StatusForbidden
		}
		return status, "The API server denies the change, so nothing was changed: " + err.Error(), true
	default:
		return 0, "", false
	}
}

func escaped(segment string) string { return url.PathEscape(segment) }
