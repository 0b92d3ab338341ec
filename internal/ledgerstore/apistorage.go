package ledgerstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/ledger"
	"github.com/bursar/bursar/internal/naming"
)

const (
	ledgersPath = "/apis/quota.miloapis.com/v1alpha1/consumerledgers"

	// onlyMetadata makes the API server answer with an object's metadata alone: a ledger may be
	// large, and all that a write or a check needs to know is the new version.
	onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// APIStorage is [Storage] in ConsumerLedger objects of a Kubernetes API server. It reads and
// writes JSON itself, because these objects are written more often than all others together.
type APIStorage struct {
	client rest.Interface
}

var _ Storage = (*APIStorage)(nil)

// NewAPIStorage returns storage on the API server of config.
func NewAPIStorage(config *rest.Config, httpClient *http.Client) (*APIStorage, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &quotav1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for ledgers: %w", err)
	}
	return &APIStorage{client: client}, nil
}

// Read implements [Storage] with a read through to etcd.
func (s *APIStorage) Read(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (ledger.Books, Version, error) {
	raw, err := s.client.Get().AbsPath(ledgersPath, naming.Ledger(consumer)).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return ledger.Books{}, "", nil
	}
	if err != nil {
		return ledger.Books{}, "", err
	}
	var object quotav1alpha1.ConsumerLedger
	if err := json.Unmarshal(raw, &object); err != nil {
		return ledger.Books{}, "", fmt.Errorf("decode ConsumerLedger %s: %w", naming.Ledger(consumer), err)
	}
	if object.Spec.ConsumerRef != consumer {
		return ledger.Books{}, "", fmt.Errorf("ConsumerLedger %s is of another consumer, %s", object.Name, describe(object.Spec.ConsumerRef))
	}
	books, err := booksOf(&object.Spec)
	if err != nil {
		return ledger.Books{}, "", fmt.Errorf("decode ConsumerLedger %s: %w", object.Name, err)
	}
	return books, Version(object.ResourceVersion), nil
}

// Write implements [Storage]. Replacing the object also drops the record of field managers:
// Bursar is the only writer, and tracking costs more than the write.
func (s *APIStorage) Write(ctx context.Context, consumer quotav1alpha1.ConsumerRef, books ledger.Books, expected Version) (Version, error) {
	object := quotav1alpha1.ConsumerLedger{
		TypeMeta:   metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ConsumerLedger"},
		ObjectMeta: metav1.ObjectMeta{Name: naming.Ledger(consumer), ResourceVersion: string(expected)},
		Spec:       specOf(consumer, books),
	}
	request := s.client.Post().AbsPath(ledgersPath)
	if expected != "" {
		object.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		request = s.client.Put().AbsPath(ledgersPath, object.Name)
	}
	body, err := json.Marshal(&object)
	if err != nil {
		return "", &RejectedError{Err: fmt.Errorf("encode ConsumerLedger %s: %w", object.Name, err)}
	}
	raw, err := request.SetHeader("Content-Type", "application/json").SetHeader("Accept", onlyMetadata).
		Body(body).Do(ctx).Raw()
	if err != nil {
		return "", classify(err, expected)
	}
	return versionIn(raw)
}

// CurrentVersion implements [Storage].
func (s *APIStorage) CurrentVersion(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (Version, error) {
	raw, err := s.client.Get().AbsPath(ledgersPath, naming.Ledger(consumer)).
		SetHeader("Accept", onlyMetadata).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return versionIn(raw)
}

// classify sorts the errors of a write: a conflict is one whatever form it takes (the object
// changed, appeared or disappeared), and a request that the API server calls invalid, too large
// or forbidden has not been carried out and will not be. etcd's own word on size comes as an error
// of the server without a reason.
func classify(err error, expected Version) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && expected != "":
		return ErrConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), strings.Contains(err.Error(), "request is too large"):
		return &RejectedError{Err: err}
	default:
		return err
	}
}

func versionIn(raw []byte) (Version, error) {
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return "", fmt.Errorf("decode the metadata of a ConsumerLedger: %w", err)
	}
	return Version(object.Metadata.ResourceVersion), nil
}
