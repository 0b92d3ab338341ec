package tenant

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/cli/plan"
	"github.com/bursar/bursar/internal/cli/request"
	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/internal/manifest"
	"github.com/bursar/bursar/internal/usage"
)

const (
	// objectsMax bounds the objects of a manifest: the page asks the API server about each.
	objectsMax = 100
	// manifestBytesMax and nodesMax bound a manifest: what is read of one takes a hundred times its length in memory, and
	// so does each node of a short one.
	manifestBytesMax, nodesMax = 256 << 10, 20_000
	// readAtOnce bounds the manifests read at a time, for all people together. Others wait: no person has more than a few
	// forms in the console, so it is soon the turn of the next one.
	readAtOnce = 2
	// echoBytesMax bounds the manifest in the answer.
	echoBytesMax = 64 << 10
)

// trial is the page to try manifests.
type trial struct{ reading *semaphore.Weighted }

func newTrial() *trial { return &trial{reading: semaphore.NewWeighted(readAtOnce)} }

// tryPage asks for a manifest, and reports whether Bursar would admit its objects.
type tryPage struct {
	Namespace  string
	Namespaces []string
	Manifest   string
	// IsLeftOut means that the manifest is too long to show it again.
	IsLeftOut bool
	// IsAsIs leaves out the API server's defaults. It is for people who may not create the objects.
	IsAsIs bool
	// Problem explains a failed try.
	Problem string
	Invalid []manifest.Problem
	// Result is nil before the first try of a manifest.
	Result *result
}

// result is the outcome for the objects of a manifest.
type result struct {
	Message string
	// IsDenied reports whether Bursar would deny an object.
	IsDenied bool
	Objects  []triedObject
	Quotas   []triedQuota
}

// triedObject is an object of a manifest.
type triedObject struct {
	Line                      int
	Name, Operation, Policies string
	// Result is in words. Class is a class of the style sheet.
	Result, Class, Message string
	// AskURL leads to a request for the missing quota, or is empty.
	AskURL string
}

// triedQuota is a quota used by the objects.
type triedQuota struct {
	Consumer, ResourceType                         string
	Change, Used, Limit, Available, AvailableAfter string
}

func (*trial) show(r *web.Request) (web.Answer, error) {
	namespaces, err := r.Session.Namespaces(r.Context())
	if err != nil {
		return nil, err
	}
	return (&tryPage{Namespace: cmp.Or(r.Query("namespace"), r.Session.Namespace), Namespaces: namespaces}).answer(http.StatusOK), nil
}

func (p *tryPage) answer(status int) web.Page {
	line := command("bursar plan -f manifest.yaml", "-n", p.Namespace)
	if p.IsAsIs {
		line += " --as-is"
	}
	if len(p.Manifest) > echoBytesMax {
		p.Manifest, p.IsLeftOut = "", true
	}
	return web.Page{Template: "try", Title: "Try a manifest", Data: p, Status: status, Command: line}
}

// invalid answers with a problem instead of a result.
func (p *tryPage) invalid(problem string) (web.Answer, error) {
	p.Problem = problem
	return p.answer(http.StatusUnprocessableEntity), nil
}

func (t *trial) try(r *web.Request) (web.Answer, error) {
	namespaces, err := r.Session.Namespaces(r.Context())
	if err != nil {
		return nil, err
	}
	p := &tryPage{Namespace: cmp.Or(r.Form("namespace"), metav1.NamespaceDefault), Namespaces: namespaces, Manifest: r.PostFormValue("manifest"), IsAsIs: r.Form("as-is") != ""}
	if uploaded, err := upload(r); err != nil {
		return nil, err
	} else if uploaded != "" {
		p.Manifest = uploaded
	}
	if err := p.check(); err != nil {
		return p.invalid(err.Error())
	}

	objects, err := t.read(r.Context(), p)
	if err != nil {
		return nil, err
	}
	switch {
	case len(objects) > objectsMax:
		const tooMany = "The manifest has %d objects, and this page tries %d. Try parts of it, or use the command below."
		return p.invalid(fmt.Sprintf(tooMany, len(objects), objectsMax))
	case len(objects) == 0 && len(p.Invalid) == 0:
		return p.invalid("The manifest has no object.")
	case len(objects) == 0:
		return p.invalid("No object of the manifest could be read.")
	}

	status, err := p.review(r, objects)
	if session.IsEnded(err) {
		return nil, err
	}
	if err != nil {
		return p.invalid("Nothing was tried: " + err.Error() + ".")
	}
	p.Result = resultOf(status, objects)
	return p.answer(http.StatusOK), nil
}

// check returns an error unless the page has a manifest to read, and a namespace.
func (p *tryPage) check() error {
	if err := web.CheckNamespace(p.Namespace); err != nil {
		return web.Invalid(err.Error() + " Enter the one for objects that name none.")
	}
	switch {
	case len(p.Manifest) > manifestBytesMax:
		const tooLong = "The manifest has %d KiB, and this page reads %d KiB. Try parts of it, or use the command below."
		return web.Invalid(fmt.Sprintf(tooLong, (len(p.Manifest)+1023)>>10, manifestBytesMax>>10))
	case !utf8.ValidString(p.Manifest):
		p.Manifest = ""
		return web.Invalid("The file is not text in UTF-8. Choose a file with YAML or JSON.")
	case strings.TrimSpace(p.Manifest) == "":
		return web.Invalid("Enter a manifest, or choose a file.")
	}
	return nil
}

// read returns the objects of the manifest, once it is its turn. The page gets the problems of those it could not read.
func (t *trial) read(ctx context.Context, p *tryPage) (objects []manifest.Object, err error) {
	if t.reading.Acquire(ctx, 1) != nil {
		return nil, &web.StatusError{Status: http.StatusServiceUnavailable, Message: "The console reads too many manifests of others now. Nothing was tried: try again."}
	}
	defer t.reading.Release(1)
	objects, p.Invalid = manifest.Parse(p.Manifest, manifest.Bounds{Documents: objectsMax, Nodes: nodesMax, RejectAliases: true})
	return objects, nil
}

// upload returns the content of the file in the form, or "".
func upload(r *web.Request) (string, error) {
	if r.MultipartForm == nil || len(r.MultipartForm.File["file"]) == 0 {
		return "", nil
	}
	file, err := r.MultipartForm.File["file"][0].Open()
	if err != nil {
		return "", fmt.Errorf("open the uploaded file: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read

	// The form is bounded, and so is its file.
	content, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("read the uploaded file: %w", err)
	}
	return string(content), nil
}

// review asks as the person whether Bursar would admit objects.
func (p *tryPage) review(r *web.Request, objects []manifest.Object) (*quotav1alpha1.QuotaReviewStatus, error) {
	api, err := dynamic.NewForConfig(r.Session.Config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	options := plan.Options{API: r.API(), Dynamic: api, Namespace: p.Namespace, AsIs: p.IsAsIs}
	for i := range objects {
		options.Objects = append(options.Objects, objects[i].Unstructured)
	}
	return plan.Review(r.Context(), options)
}

// results are the results in words, with their class of the style sheet.
var results = map[quotav1alpha1.ReviewResult]struct{ text, class string }{
	quotav1alpha1.ReviewResultFits:       {"Fits", "good"},
	quotav1alpha1.ReviewResultDoesNotFit: {"Does not fit", "over"},
	quotav1alpha1.ReviewResultUnknown:    {"Unknown", "near"},
	plan.ResultRejected:                  {"Rejected", "over"},
}

// resultOf returns the answer to a review of objects, in their order.
func resultOf(status *quotav1alpha1.QuotaReviewStatus, objects []manifest.Object) *result {
	found := &result{Message: status.Message}
	for i := range status.Objects {
		answer := &status.Objects[i]
		words := results[answer.Result]
		t := triedObject{
			Name: plan.NameOf(answer), Operation: cmp.Or(answer.Operation, "-"), Policies: plan.PoliciesOf(answer),
			Result: words.text, Class: words.class, Message: answer.Message,
		}
		if i < len(objects) {
			t.Line = objects[i].Line
		}
		if answer.Result == quotav1alpha1.ReviewResultDoesNotFit {
			found.IsDenied, t.AskURL = true, askFor(answer, status.Quotas)
		}
		found.Objects = append(found.Objects, t)
	}
	for i := range status.Quotas {
		quota := &status.Quotas[i]
		found.Quotas = append(found.Quotas, triedQuota{
			Consumer: message.Consumer(quota.ConsumerRef), ResourceType: plan.TypeOf(&quota.ReviewedCharge),
			Change: quota.Display.Amount, Used: quota.Display.Used, Limit: quota.Display.Limit,
			Available: quota.Display.Available, AvailableAfter: quota.Display.AvailableAfter,
		})
	}
	return found
}

// askFor returns the page of the request advised by a denial, or "" if it advises none.
func askFor(denied *quotav1alpha1.ReviewedObjectResult, quotas []quotav1alpha1.ReviewedQuota) string {
	advised, err := request.ParseDenial(denied.Message)
	if err != nil {
		return ""
	}
	w := wish{namespace: advised.Namespace, consumer: advised.For, dimensions: advised.Dimensions, reason: "To create " + plan.NameOf(denied)}
	for _, a := range advised.Amounts {
		w.amounts = append(w.amounts, wished{a.Type, increase(unitIn(quotas, a.Type), a.Value)})
	}
	return w.URL()
}

// unitIn returns the display unit of a resource type, as far as quotas show it.
func unitIn(quotas []quotav1alpha1.ReviewedQuota, resourceType string) usage.Unit {
	for i := range quotas {
		q := &quotas[i]
		unit, isKnown := usage.UnitOf(usage.Item{Limit: q.Limit, Used: q.Used, Available: q.Available, Display: &quotav1alpha1.DisplayedQuota{
			TotalLimit: q.Display.Limit, TotalAllocated: q.Display.Used, Available: q.Display.Available,
		}})
		if isKnown && q.ResourceType == resourceType {
			return unit
		}
	}
	return usage.Unit{}
}
