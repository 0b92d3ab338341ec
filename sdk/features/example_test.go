package features_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/open-feature/go-sdk/openfeature"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/sdk/features"
)

// server stands for an API server on which Bursar shows one feature of the Organization acme.
func server() *httptest.Server {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, object any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
	group := quotav1alpha1.GroupVersion.String()
	mux.HandleFunc("/apis/"+group+"/effectiveresourcegrants", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			http.Error(w, "lists are not streamed", http.StatusBadRequest)
			return
		}
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // nothing changes
			return
		}
		dark := quotav1alpha1.EffectiveResourceGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "dark-mode", ResourceVersion: "1"},
			Spec: quotav1alpha1.EffectiveResourceGrantSpec{
				ConsumerRef: quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization", Name: "acme"}, ResourceType: "features.example.com/dark-mode",
			},
			Status: quotav1alpha1.EffectiveResourceGrantStatus{ObservedGeneration: 1, TotalLimit: 1, Available: 1, Feature: quotav1alpha1.FeatureOn},
		}
		answer(w, quotav1alpha1.EffectiveResourceGrantList{
			TypeMeta: metav1.TypeMeta{APIVersion: group, Kind: "EffectiveResourceGrantList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []quotav1alpha1.EffectiveResourceGrant{dark},
		})
	})
	return httptest.NewServer(mux)
}

func Example() {
	api := server()
	defer api.Close()
	config := &rest.Config{Host: api.URL} // in a cluster: rest.InClusterConfig()

	provider, err := features.New(config, features.Options{
		Consumer: quotav1alpha1.ConsumerRef{APIGroup: "platform.example.com", Kind: "Organization"},
	})
	if err == nil {
		err = openfeature.SetProviderAndWait(provider)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer provider.Shutdown()
	client := openfeature.NewClient("shop")
	for _, organization := range []string{"acme", "other"} {
		isOn := client.Boolean(context.Background(), "dark-mode", false, openfeature.NewEvaluationContext(organization, nil))
		fmt.Println(organization, isOn)
	}
	// Output:
	// acme true
	// other false
}
