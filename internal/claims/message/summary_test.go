package message_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/catalog"
	"github.com/bursar/bursar/internal/claims/message"
	"github.com/bursar/bursar/internal/ledger"
)

// cores are the only registration.
type cores struct{}

func (cores) Registration(resourceType string) *catalog.Registration {
	if resourceType != "example.com/instances/cpu" {
		return nil
	}
	return &catalog.Registration{DisplayUnit: "core", Factor: 1000}
}

func TestSummaries(t *testing.T) {
	const cpu = "example.com/instances/cpu"
	allowance := func(selector *metav1.LabelSelector, amounts ...int64) []quotav1alpha1.Allowance {
		a := quotav1alpha1.Allowance{ResourceType: cpu, DimensionSelector: selector}
		for _, amount := range amounts {
			a.Buckets = append(a.Buckets, quotav1alpha1.Bucket{Amount: amount})
		}
		return []quotav1alpha1.Allowance{a}
	}
	request := quotav1alpha1.ResourceRequest{ResourceType: cpu, Amount: 1500}
	long := quotav1alpha1.ResourceRequest{ResourceType: strings.Repeat("r", 253), Amount: 1}
	tests := map[string]struct{ reason, got, want string }{
		"requests":     {"a type is known by its last segment, and one that is not registered has no unit", message.Requests(cores{}, []quotav1alpha1.ResourceRequest{request, {ResourceType: "seats", Amount: 2}}), "cpu=1.5 cores, seats=2"},
		"unknown":      {"a claim can be rejected where nothing is known", message.Requests(nil, []quotav1alpha1.ResourceRequest{request}), "cpu=1500"},
		"many":         {"a column is no list", message.Requests(nil, []quotav1alpha1.ResourceRequest{request, request, request, request, request, request}), "cpu=1500, cpu=1500, cpu=1500, cpu=1500, 2 more"},
		"long":         {"it is bounded", message.Requests(nil, []quotav1alpha1.ResourceRequest{long}), strings.Repeat("r", 199) + "…"},
		"allowance":    {"buckets add up", message.Allowances(cores{}, allowance(nil, 1000, 2000)), "cpu=3 cores"},
		"selected":     {"a part is told from the whole", message.Allowances(cores{}, allowance(&metav1.LabelSelector{MatchLabels: map[string]string{"net.example.com/location": "DFW"}}, 1000)), "cpu=1 core (location=DFW)"},
		"dimensions":   {"in a fixed order", message.Dimensions(map[string]string{"b": "2", "x/a": "1"}), "a=1,b=2"},
		"nothing used": {"", message.Percent(0, 0), "0%"},
		"no limit":     {"there is no percentage", message.Percent(1, 0), "over"},
		"half":         {"", message.Percent(5, 10), "50%"},
		"a little":     {"it is more than nothing", message.Percent(1, 1000), "<1%"},
		"two thirds":   {"it is rounded to the nearest", message.Percent(2, 3), "67%"},
		"four thirds":  {"it is rounded to the nearest", message.Percent(4, 3), "133%"},
		"nearly":       {"it is rounded down, so that 100% is all of it", message.Percent(999, 1000), "99%"},
		"over":         {"a limit can be cut", message.Percent(15, 10), "150%"},
		"barely over":  {"it is rounded up, so that 100% is no more than all of it", message.Percent(1001, 1000), "101%"},
		"large":        {"nothing overflows", message.Percent(ledger.AmountMax, ledger.AmountMax), "100%"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.reason, tt.got, tt.want)
			}
		})
	}
}
