// Package restclient makes low-level clients for Bursar's frequently written objects: in JSON, through a shared HTTP
// client, and with answers of only metadata, because the writer knows the rest. Like all of kube it knows no quota, and
// any internal package may import it.
package restclient

import (
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Values of the header Accept, for an answer with the metadata of an object, or of each object of a list.
const (
	OnlyMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	OnlyMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// New returns a client for an API group in one version, on the API server of config. It encodes and decodes the types
// of the scheme.
func New(config *rest.Config, httpClient *http.Client, version schema.GroupVersion, scheme *runtime.Scheme) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &version
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", version, err)
	}
	return client, nil
}

// Stored is the metadata set by the API server when it stores an object.
type Stored struct {
	UID               types.UID   `json:"uid"`
	ResourceVersion   string      `json:"resourceVersion"`
	Generation        int64       `json:"generation"`
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
}

// StoredIn returns the metadata in the answer to a write or a read. It fails if the answer is not a JSON object.
func StoredIn(answer []byte) (Stored, error) {
	var object struct {
		Metadata Stored `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return Stored{}, fmt.Errorf("decode the metadata of an object: %w", err)
	}
	return object.Metadata, nil
}
