package main

import (
	"slices"
	"testing"
)

func TestTouches(t *testing.T) {
	t.Chdir("../..")
	campaigns := []string{"external", "faults", "kubernetes", "replicas"}
	folders := map[string][]string{}
	for _, campaign := range campaigns {
		var err error
		if folders[campaign], err = packages("./test/campaign/"+campaign+"/...", "./cmd/..."); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		reason string
		files  []string
		want   []string
	}{
		"nothing":        {"nothing changed", nil, nil},
		"ledger":         {"the binary is made of it", []string{"internal/ledger/ledger.go"}, campaigns},
		"embedded":       {"the binary holds it", []string{"deploy/crds/quota.miloapis.com_resourcegrants.yaml"}, campaigns},
		"module":         {"any dependency may have changed", []string{"go.sum"}, campaigns},
		"recipe":         {"it says how campaigns run", []string{".ci/run"}, campaigns},
		"unit test":      {"no binary is made of it", []string{"internal/ledger/pair_test.go"}, nil},
		"other test":     {"it is a suite of its own", []string{"test/e2e/world_test.go"}, nil},
		"explanation":    {"nobody runs it", []string{"README.md", "CHANGELOG.md", "test/README.md", "hack/apireference/page.go"}, nil},
		"documentation":  {"its commands are run", []string{"docs/tasks/install.md"}, []string{"faults"}},
		"own test":       {"", []string{"test/campaign/external/quickstart/quickstart_test.go"}, []string{"external"}},
		"another module": {"the campaign builds it", []string{"test/campaign/external/prometheus/components/go.sum"}, []string{"external"}},
		"tagged":         {"the campaign builds it", []string{"test/campaign/kubernetes/components/main.go"}, []string{"kubernetes"}},
		"library":        {"only this one starts clusters", []string{"test/campaign/kubernetes/cluster/pki.go"}, []string{"kubernetes"}},
		"helm":           {"charts are installed by two", []string{"test/helm/helm.go"}, []string{"external", "kubernetes"}},
		"one of many":    {"the others do not count", []string{"README.md", "test/campaign/replicas/lag_test.go"}, []string{"replicas"}},
		"similar name":   {"it is not below the folder", []string{"examples-old/a.yaml"}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, campaign := range campaigns {
				if touches(tt.files, campaign, folders[campaign]) {
					got = append(got, campaign)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v touches %v, want %v: %s", tt.files, got, tt.want, tt.reason)
			}
		})
	}
}
