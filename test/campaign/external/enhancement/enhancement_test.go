// Package enhancement follows the README of examples/enhancement, on a server started as it says.
package enhancement

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/process"
)

const (
	root     = "../../../.."
	examples = "examples/enhancement"

	cpu    = "compute.datumapis.com/instances/cpu"
	memory = "compute.datumapis.com/instances/memoryAllocated"
	// soon is generous, because other tests run beside it.
	soon = time.Minute
)

// guide has the commands for a reader of the README.
type guide struct {
	serverFlags []string
	kubectl     [][]string
}

var command = regexp.MustCompile(`(?m)^bin/bursar (standalone|kubectl) (.*)$`)

func readGuide(t *testing.T) guide {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var g guide
	for _, match := range command.FindAllStringSubmatch(string(readme), -1) {
		arguments := strings.Fields(match[2])
		if match[1] == "standalone" {
			g.serverFlags = arguments
			continue
		}
		g.kubectl = append(g.kubectl, arguments)
	}
	return g
}

// platform is the server of the guide.
type platform struct {
	*testing.T
	server *process.Server
	api    client.Client
}

// kubectl runs a command of the guide in the root of the repository, as its reader does.
func (p *platform) kubectl(arguments ...string) string {
	p.Helper()
	binary, err := process.Build()
	if err != nil {
		p.Fatal(err)
	}
	kubectl := exec.CommandContext(p.Context(), binary, append([]string{"kubectl"}, arguments...)...)
	kubectl.Dir = root
	kubectl.Env = append(os.Environ(), "KUBECONFIG="+p.server.Kubeconfig())
	output, err := kubectl.CombinedOutput()
	if err != nil {
		p.Fatalf("kubectl %v: %v\n%s", arguments, err, output)
	}
	return string(output)
}

func TestGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the binary and starts a server")
	}
	g := readGuide(t)
	server := process.Start(t, t.TempDir(), g.serverFlags...)
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{T: t, server: server, api: api}
	after := map[string]func(){
		"3-grants.yaml":    p.checkBeforeFirstClaim,
		"4-claims.yaml":    p.checkFirstClaims,
		"5-locations.yaml": p.checkLocations,
		"6-too-much.yaml":  p.checkTooMuch,
	}
	var applied []string
	for _, arguments := range g.kubectl {
		p.kubectl(arguments...)
		if arguments[0] != "apply" {
			continue
		}
		file := filepath.Base(arguments[len(arguments)-1])
		applied = append(applied, file)
		if check := after[file]; check != nil {
			check()
		}
	}
	files, err := filepath.Glob(filepath.Join(root, examples, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if diff := cmp.Diff(files, applied); diff != "" {
		t.Errorf("the guide applies every file (-files +applied):\n%s", diff)
	}
	p.checkColumns()
	p.checkRemoved()
}

// checkRemoved removes everything by the README, in the order of the files.
func (p *platform) checkRemoved() {
	p.kubectl("delete", "--ignore-not-found", "--timeout=60s", "-f", examples, "-f", policies)
	for _, list := range []client.ObjectList{
		&quotav1alpha1.ResourceRegistrationList{}, &quotav1alpha1.ResourceGrantList{}, &quotav1alpha1.ResourceClaimList{},
	} {
		if err := p.api.List(p.Context(), list); err != nil {
			p.Fatal(err)
		}
		if n := apimeta.LenList(list); n > 0 {
			p.Errorf("%d objects are left in %+v", n, list)
		}
	}
}

func (p *platform) checkBeforeFirstClaim() {
	p.wantDisplayed("org-abc", map[string]quotav1alpha1.DisplayedQuota{
		"resourcemanager.datumapis.com/project": {TotalLimit: "10 projects", TotalAllocated: "0 projects", Available: "10 projects"},
	})
	p.wantDisplayed("proj-abc", map[string]quotav1alpha1.DisplayedQuota{
		"compute.datumapis.com/instance": {TotalLimit: "100 instances", TotalAllocated: "0 instances", Available: "100 instances"},
		cpu:                              {TotalLimit: "600 cores", TotalAllocated: "0 cores", Available: "600 cores"},
		memory:                           {TotalLimit: "48.828125 GiB", TotalAllocated: "0 GiB", Available: "48.828125 GiB"},
	})
	var bucket quotav1alpha1.EffectiveResourceGrantList
	if err := p.api.List(p.Context(), &bucket, client.MatchingLabels{quotav1alpha1.LabelResourceType: "compute.datumapis.com.instances.cpu"}); err != nil {
		p.Fatal(err)
	}
	if len(bucket.Items) != 1 || bucket.Items[0].Spec.ResourceType != cpu {
		p.Errorf("got %+v by label, want the effective grant of %s", bucket.Items, cpu)
	}
}

func (p *platform) checkFirstClaims() {
	p.wantGranted("proj-abc", "proj-abc-instance-cpu-claim-abc123")
	p.wantGranted("org-abc", "org-abc-proj-xyz-entity-claim")
	p.wantWaiting("proj-abc-instance-memory-claim-abc123", "QuotaExceeded",
		"requested: 64 GiB, used: 32, limited: 48.828125 (without dimensions, available: 0)")
	p.wantDisplayed("org-abc", map[string]quotav1alpha1.DisplayedQuota{
		"resourcemanager.datumapis.com/project": {TotalLimit: "10 projects", TotalAllocated: "5 projects", Available: "5 projects"},
	})
}

// numbers are the figures in a bucket.
type numbers struct {
	limit, allocated, available int64
	claims                      int32
}

const (
	dfw      = "networking.datumapis.com/location=DFW"
	dls      = "networking.datumapis.com/location=DLS"
	standard = "compute.datumapis.com/instance-type=d1-standard-2,"
)

func (p *platform) checkLocations() {
	p.wantGranted("proj-abc", "proj-abc-dls")
	p.wantGranted("proj-abc", "proj-abc-dfw")
	p.wantBuckets(cpu, map[string]numbers{
		"":             {600000, 600000, 0, 3},
		dls:            {600000, 540000, 0, 1},
		dfw:            {100000, 52000, 0, 1},
		standard + dfw: {100000, 8000, 0, 1},
	})
	const gib = 1 << 30
	p.wantBuckets(memory, map[string]numbers{
		"":             {52428800000, 32 * gib, 52428800000 - 32*gib, 1},
		standard + dfw: {52428800000, 32 * gib, 52428800000 - 32*gib, 1},
	})
}

func (p *platform) checkTooMuch() {
	p.wantWaiting("proj-abc-dfw-more", "QuotaExceeded", "requested: 1 core, used: 600, limited: 600 (for "+dfw+", available: 0)")
	p.wantWaiting("proj-abc-zone", "ValidationFailed",
		`resource type "`+cpu+`" has no dimension "networking.datumapis.com/zone": add it to spec.dimensions of ResourceRegistration compute-instances-cpu-registration`)
	// DFW waits for the amount of the base held by DLS.
	p.kubectl("delete", "-n", "proj-abc", "resourceclaim", "proj-abc-dls")
	p.wantGranted("proj-abc", "proj-abc-dfw-more")
	p.wantBuckets(cpu, map[string]numbers{
		"":             {600000, 61000, 539000, 3},
		dls:            {600000, 0, 539000, 0},
		dfw:            {100000, 53000, 39000, 2},
		standard + dfw: {100000, 8000, 39000, 1},
	})
	p.wantDisplayed("proj-abc", map[string]quotav1alpha1.DisplayedQuota{
		"compute.datumapis.com/instance": {TotalLimit: "100 instances", TotalAllocated: "0 instances", Available: "100 instances"},
		cpu:                              {TotalLimit: "600 cores", TotalAllocated: "61 cores", Available: "539 cores"},
		memory:                           {TotalLimit: "48.828125 GiB", TotalAllocated: "32 GiB", Available: "16.828125 GiB"},
	})
}

// descriptions are those of the registrations, by resource type.
var descriptions = map[string]string{
	"resourcemanager.datumapis.com/project": "Number of projects that can be created within an organization.",
	"compute.datumapis.com/instance":        "Number of compute instances in a project.",
	cpu:                                     "Number of CPU cores that can be allocated to compute instances.",
	memory:                                  "Memory that can be allocated to compute instances.",
}

// wantDisplayed waits until the effective grants of a namespace display this, by resource type.
func (p *platform) wantDisplayed(namespace string, want map[string]quotav1alpha1.DisplayedQuota) {
	p.Helper()
	for resourceType, displayed := range want {
		displayed.Description = descriptions[resourceType]
		want[resourceType] = displayed
	}
	p.eventually(func() error {
		var list quotav1alpha1.EffectiveResourceGrantList
		if err := p.api.List(p.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		got := map[string]quotav1alpha1.DisplayedQuota{}
		for _, effective := range list.Items {
			if effective.Status.Display != nil {
				shown := *effective.Status.Display
				shown.Percent = "" // the tables show it
				got[effective.Spec.ResourceType] = shown
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("displayed in namespace %s (-want +got):\n%s", namespace, diff)
		}
		return nil
	})
}

// wantBuckets waits until the buckets of a resource type in namespace proj-abc show this, by dimensions.
func (p *platform) wantBuckets(resourceType string, want map[string]numbers) {
	p.Helper()
	p.eventually(func() error {
		var list quotav1alpha1.AllowanceBucketList
		err := p.api.List(p.Context(), &list, client.InNamespace("proj-abc"), client.MatchingFields{"spec.resourceType": resourceType})
		if err != nil {
			return err
		}
		got := map[string]numbers{}
		for _, bucket := range list.Items {
			var pairs []string
			for _, key := range slices.Sorted(maps.Keys(bucket.Spec.Dimensions)) {
				pairs = append(pairs, key+"="+bucket.Spec.Dimensions[key])
			}
			s := bucket.Status
			got[strings.Join(pairs, ",")] = numbers{s.Limit, s.Allocated, s.Available, s.ClaimCount}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(numbers{})); diff != "" {
			return fmt.Errorf("buckets of %s (-want +got):\n%s", resourceType, diff)
		}
		return nil
	})
}

func (p *platform) wantGranted(namespace, name string) {
	p.Helper()
	p.eventually(func() error {
		condition, err := p.granted(namespace, name)
		if err == nil && condition.Status != metav1.ConditionTrue {
			err = fmt.Errorf("claim %s is not granted: %s", name, condition.Message)
		}
		return err
	})
}

// wantWaiting waits until a claim of proj-abc is not granted, with the given reason and with the text in its message.
func (p *platform) wantWaiting(name, reason, text string) {
	p.Helper()
	p.eventually(func() error {
		condition, err := p.granted("proj-abc", name)
		if err == nil && (condition.Status != metav1.ConditionFalse || condition.Reason != reason || !strings.Contains(condition.Message, text)) {
			err = fmt.Errorf("claim %s says %+v, want %s with %q", name, condition, reason, text)
		}
		return err
	})
}

func (p *platform) granted(namespace, name string) (*metav1.Condition, error) {
	claim := &quotav1alpha1.ResourceClaim{}
	if err := p.api.Get(p.Context(), client.ObjectKey{Namespace: namespace, Name: name}, claim); err != nil {
		return nil, err
	}
	if condition := apimeta.FindStatusCondition(claim.Status.Conditions, quotav1alpha1.ConditionGranted); condition != nil {
		return condition, nil
	}
	return nil, errors.New("claim " + name + " is not decided")
}

// eventually waits until check returns nil.
func (p *platform) eventually(check func() error) {
	p.Helper()
	await.NoError(p.T, soon, check)
}
