package service

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1alpha1 "github.com/bursar/bursar/examples/compute/api/v1alpha1"
	"github.com/bursar/bursar/examples/compute/provider"
	"github.com/bursar/bursar/sdk/claims"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func resources(vcpus, memory string) computev1alpha1.Resources {
	return computev1alpha1.Resources{VCPUs: resource.MustParse(vcpus), Memory: resource.MustParse(memory)}
}

// situation is a deployment "d", and the Instances in its namespace, in a text such as "0 ready, 1 blocked 90s": the
// number in the name of each, and its state. foreign is an Instance of another owner.
type situation struct {
	desired   int32
	ttl       time.Duration
	expired   int32
	isChanged bool
	instances string
	available int64
}

func (s situation) plan(t *testing.T) plan {
	t.Helper()
	d := &computev1alpha1.WorkloadDeployment{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "d", Generation: 2}}
	d.Spec.Replicas, d.Spec.Quota.WaitingReplicasMax = &s.desired, 3
	d.Spec.Template.Spec = computev1alpha1.InstanceSpec{Image: "new", Resources: resources("1", "1Gi")}
	d.Status.ObservedGeneration, d.Status.QuotaExpiredReplicas = 2, s.expired
	if s.isChanged {
		d.Status.ObservedGeneration = 1
	}
	if s.ttl > 0 {
		d.Spec.Quota.WaitingTTL = &metav1.Duration{Duration: s.ttl}
	}
	var all []computev1alpha1.Instance
	for text := range strings.SplitSeq(s.instances, ", ") {
		if text == "" {
			continue
		}
		fields := strings.Fields(text)
		instance := computev1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Name: "d-" + fields[0], UID: types.UID(fields[0])}, Spec: *d.Spec.Template.Spec.DeepCopy()}
		instance.OwnerReferences = []metav1.OwnerReference{{UID: d.UID, Controller: new(true)}}
		status := &instance.Status
		quota := func(state claims.State) {
			(claims.Decision{State: state}).Set(&status.Conditions, 0, computev1alpha1.ConditionReady)
		}
		for _, word := range fields[1:] {
			switch word {
			case "ready", "old":
				quota(claims.Granted)
				set(&status.Conditions, computev1alpha1.ConditionProgrammed, 0, isSo)
				set(&status.Conditions, computev1alpha1.ConditionReady, 0, isSo)
				if word == "old" {
					instance.Spec.Image = "old"
				}
			case "granted":
				quota(claims.Granted)
			case "resizing":
				quota(claims.Granted)
				(claims.Decision{State: claims.Granted, Resize: &claims.Resize{}}).Set(&status.Conditions, 0)
				set(&status.Conditions, computev1alpha1.ConditionReady, 0, isSo)
			case "blocked":
				quota(claims.Exceeded)
			case "unprogrammed":
				set(&status.Conditions, computev1alpha1.ConditionProgrammed, 0, provider.State{Reason: "Infeasible"})
			case "invalid":
				quota(claims.Invalid)
			case "new":
			case "deleted":
				instance.DeletionTimestamp = &metav1.Time{Time: now}
			case "foreign":
				instance.OwnerReferences = nil
			default:
				age, err := time.ParseDuration(word)
				if err != nil {
					t.Fatal(err)
				}
				status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-age))
			}
		}
		all = append(all, instance)
	}
	usage := []claims.Usage{
		{ResourceType: typeInstances, Used: 7, Limit: 7 + s.available, Available: s.available},
		{ResourceType: typeVCPUs, Available: math.MaxInt64}, {ResourceType: typeMemory, Available: math.MaxInt64},
	}
	return planFor(d, all, usage, now)
}

var isSo = provider.State{Is: true, Reason: "Simulated"}

func TestPlan(t *testing.T) {
	tests := map[string]struct {
		reason string
		situation
		want string
	}{
		"new":                {"as many are tried as may wait", situation{desired: 10}, "create d-0 d-1 d-2; 0 ready, 0 blocked"},
		"few":                {"no more than are desired", situation{desired: 2}, "create d-0 d-1; 0 ready, 0 blocked"},
		"undecided":          {"those that nobody has decided on count as well", situation{desired: 10, instances: "0 new, 1 new"}, "create d-2; 0 ready, 0 blocked"},
		"granted":            {"those that have quota do not", situation{desired: 10, instances: "0 granted, 1 ready"}, "create d-2 d-3 d-4; 1 ready, 0 blocked"},
		"blocked":            {"no more than three wait", situation{desired: 10, instances: "0 ready, 1 blocked, 2 blocked, 3 blocked"}, "1 ready, 9 blocked"},
		"invalid":            {"what is wrong for one is for all", situation{desired: 10, instances: "0 invalid, 1 invalid, 2 invalid"}, "0 ready, 0 blocked"},
		"gap":                {"numbers are taken up again", situation{desired: 3, instances: "0 ready, 2 ready"}, "create d-1; 2 ready, 0 blocked"},
		"foreign":            {"what belongs to somebody else is left alone", situation{desired: 1, instances: "0 foreign ready"}, "create d-1; 0 ready, 0 blocked"},
		"being deleted":      {"its name is taken until it is gone", situation{desired: 1, instances: "0 deleted ready"}, "create d-1; 0 ready, 0 blocked"},
		"fewer":              {"those that wait go first, then those that are not ready", situation{desired: 1, instances: "0 ready, 1 granted, 2 blocked, 3 new"}, "remove d-2 d-3 d-1; 1 ready, 0 blocked"},
		"none":               {"all go", situation{instances: "0 ready"}, "remove d-0; 0 ready, 0 blocked"},
		"kept":               {"without a TTL they are kept", situation{desired: 2, instances: "0 ready, 1 blocked 1000h"}, "1 ready, 1 blocked"},
		"young":              {"it is looked at again when its time has come", situation{desired: 2, ttl: time.Hour, instances: "0 ready, 1 blocked 50m"}, "again 10m0s; 1 ready, 1 blocked"},
		"old":                {"it has waited for long enough", situation{desired: 3, ttl: time.Hour, instances: "0 ready, 1 blocked 1h, 2 blocked 59m"}, "remove d-1; again 1m0s; 1 ready, 2 blocked, 1 given up"},
		"given up":           {"those that were are not created", situation{desired: 3, ttl: time.Hour, expired: 2, instances: "0 ready"}, "1 ready, 2 blocked, 2 given up"},
		"room":               {"as many come back as fit", situation{desired: 4, ttl: time.Hour, expired: 3, available: 1, instances: "0 ready"}, "create d-1; 1 ready, 3 blocked, 2 given up"},
		"much room":          {"one at a time, as what is known is a moment old", situation{desired: 4, ttl: time.Hour, expired: 3, available: 10, instances: "0 ready"}, "create d-1; 1 ready, 3 blocked, 2 given up"},
		"in vain":            {"none comes back while another waits", situation{desired: 4, ttl: time.Hour, expired: 2, available: 10, instances: "0 ready, 1 new"}, "1 ready, 2 blocked, 2 given up"},
		"changed":            {"a new spec is a new try", situation{desired: 3, ttl: time.Hour, expired: 2, isChanged: true, instances: "0 ready"}, "create d-1 d-2; 1 ready, 0 blocked"},
		"TTL removed":        {"without one nobody is given up", situation{desired: 3, expired: 2, instances: "0 ready"}, "create d-1 d-2; 1 ready, 0 blocked"},
		"given up and fewer": {"those that are not desired need not come back", situation{desired: 2, ttl: time.Hour, expired: 2, instances: "0 ready"}, "1 ready, 1 blocked, 1 given up"},
		"outdated":           {"one at a time", situation{desired: 2, instances: "0 old, 1 old"}, "update d-0; 2 ready, 0 blocked"},
		"outdated and not":   {"those that are not ready at once", situation{desired: 3, instances: "0 old, 1 old, 2 blocked"}, "update d-0; 2 ready, 1 blocked"},
		"not settled":        {"the next one once the last one is ready", situation{desired: 2, instances: "0 granted, 1 old"}, "1 ready, 0 blocked"},
		"unprogrammed":       {"nor while the last one is not as it should be", situation{desired: 2, instances: "0 ready unprogrammed, 1 old"}, "2 ready, 0 blocked"},
		"not resized":        {"nor while the last one waits for what it is to have", situation{desired: 2, instances: "0 resizing, 1 old"}, "2 ready, 0 blocked"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := tt.plan(t)
			var said []string
			names := func(what string, instances []*computev1alpha1.Instance) {
				if len(instances) == 0 {
					return
				}
				for _, instance := range instances {
					what += " " + instance.Name
				}
				said = append(said, what)
			}
			if len(p.create) > 0 {
				said = append(said, "create "+strings.Join(p.create, " "))
			}
			names("update", p.update)
			names("remove", p.remove)
			if p.again > 0 {
				said = append(said, "again "+p.again.String())
			}
			text := fmt.Sprintf("%d ready, %d blocked", p.status.ReadyReplicas, p.status.QuotaBlockedReplicas)
			if p.status.QuotaExpiredReplicas > 0 {
				text += fmt.Sprintf(", %d given up", p.status.QuotaExpiredReplicas)
			}
			if diff := cmp.Diff(tt.want, strings.Join(append(said, text), "; ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestAmounts(t *testing.T) {
	r := resources("1500.1m", "1025Ki")
	var got []string
	for _, amount := range amountsOf(r) {
		got = append(got, fmt.Sprint(strings.TrimPrefix(amount.ResourceType, "compute.datumapis.com/"), " ", amount.Amount))
	}
	if diff := cmp.Diff([]string{"instances 1", "vcpus 1501", "memory 2"}, got); diff != "" {
		t.Errorf("parts of a unit count as one (-want +got):\n%s", diff)
	}
	if limited := within(r, amountsOf(r)); limited.VCPUs.Cmp(r.VCPUs) != 0 || limited.Memory.Cmp(r.Memory) != 0 {
		t.Errorf("what is held for them all is %v", limited)
	}
	if limited := within(r, amountsOf(resources("1", "4Mi"))); limited.VCPUs.String() != "1" || limited.Memory.Cmp(r.Memory) != 0 {
		t.Errorf("what is held is less: got %v", limited)
	}
}
