package usage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

func TestCountShort(t *testing.T) {
	web := project("web")
	all := []Usage{
		{Consumer: web, ResourceType: "gpus"}, {Consumer: web, ResourceType: "vcpus", Used: 1000, Limit: 16000}, {Consumer: web, ResourceType: "memory", Used: 9, Limit: 10},
		{Consumer: web, ResourceType: "beta", Used: 7, Limit: 1, IsFeature: true},
	}
	request := func(resourceType string, amount int64) quotav1alpha1.ResourceRequest {
		return quotav1alpha1.ResourceRequest{ResourceType: resourceType, Amount: amount}
	}
	tests := map[string]struct {
		reason string
		claims [][]quotav1alpha1.ResourceRequest
		want   map[string]int
	}{
		"one type":   {"there is plenty of the other", [][]quotav1alpha1.ResourceRequest{{request("gpus", 1), request("vcpus", 4000)}}, map[string]int{"gpus": 1}},
		"two types":  {"each of them has to be granted", [][]quotav1alpha1.ResourceRequest{{request("gpus", 1), request("memory", 2)}}, map[string]int{"gpus": 1, "memory": 1}},
		"feature":    {"a feature is never short", [][]quotav1alpha1.ResourceRequest{{request("gpus", 1), request("beta", 1)}}, map[string]int{"gpus": 1}},
		"two claims": {"each waits", [][]quotav1alpha1.ResourceRequest{{request("gpus", 1)}, {request("gpus", 2), request("memory", 1)}}, map[string]int{"gpus": 2}},
		"no bucket":  {"nothing is granted of what nobody knows", [][]quotav1alpha1.ResourceRequest{{request("disks", 1)}}, map[string]int{"disks": 1}},
		"dimensions": {"what is short is a part of one of them", [][]quotav1alpha1.ResourceRequest{{request("vcpus", 1), request("memory", 1)}}, map[string]int{"vcpus": 1, "memory": 1}},
	}
	for name, tt := range tests {
		got := countShort(map[quotav1alpha1.ConsumerRef][][]quotav1alpha1.ResourceRequest{web: tt.claims}, all)
		if diff := cmp.Diff(map[quotav1alpha1.ConsumerRef]map[string]int{web: tt.want}, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tt.reason, diff)
		}
	}
}
