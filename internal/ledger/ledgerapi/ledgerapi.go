// Package ledgerapi reads and writes ledgers on an API server. It encodes them itself and asks for answers with
// metadata only, because there are more writes of ledgers than of all other objects together. The stores of consumer
// ledgers and of allocations import it.
package ledgerapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/restclient"
)

// ErrConflict means that somebody changed or deleted the ledger after the read, or created it before the write.
var ErrConflict = errors.New("the ledger was changed since it was read")

// Client reads and writes the ledgers of one kind. It is safe for concurrent use.
type Client struct {
	api    rest.Interface
	path   string
	kind   schema.GroupResource
	direct Direct
	// stored has, by name, the metadata of ledgers as this client last wrote them.
	stored *lru.Cache
}

// Direct changes objects past the API server, as package directstore does. It is an interface because the build of the
// operator has no etcd.
type Direct interface {
	Update(ctx context.Context, resource schema.GroupResource, object metav1.Object) error
}

// storedMax is how many ledgers a client remembers, at about 200 bytes each.
const storedMax = 10_000

// New returns a client for a resource of Bursar's API group, such as consumerledgers, on the API server of config. It
// changes ledgers with direct unless direct is nil.
func New(config *rest.Config, httpClient *http.Client, resource string, direct Direct) (*Client, error) {
	api, err := restclient.New(config, httpClient, quotav1alpha1.GroupVersion, scheme.Scheme)
	if err != nil {
		return nil, err
	}
	return &Client{
		api: api, path: "/apis/" + quotav1alpha1.GroupVersion.String() + "/" + resource,
		kind: quotav1alpha1.GroupVersion.WithResource(resource).GroupResource(), direct: direct, stored: lru.New(storedMax),
	}, nil
}

// Read reads a ledger into an object, through to etcd. Errors are those of the API server, such as NotFound, and
// decoding errors.
func (c *Client) Read(ctx context.Context, name string, into any) error {
	raw, err := c.api.Get().AbsPath(c.path, name).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decode ledger %s: %w", name, cmp.Or(checkFormat(raw), err))
	}
	return nil
}

// FormatError means that the ledger has a format of a newer version of Bursar. Do not write such a ledger.
type FormatError struct{ Format int64 }

func (e *FormatError) Error() string {
	return fmt.Sprintf("it is stored in format %d, which a newer version of Bursar has written, and this version knows formats up to %d: update this replica",
		e.Format, quotav1alpha1.ConsumerLedgerFormat)
}

// checkFormat returns a [FormatError] if the format is the reason for a decoding error.
func checkFormat(raw []byte) error {
	var object struct {
		Spec struct {
			Format int64 `json:"format"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &object); err == nil && object.Spec.Format > quotav1alpha1.ConsumerLedgerFormat {
		return &FormatError{object.Spec.Format}
	}
	return nil
}

// Version returns the current resource version of a ledger, or "" if there is none.
func (c *Client) Version(ctx context.Context, name string) (string, error) {
	raw, err := c.api.Get().AbsPath(c.path, name).SetHeader("Accept", restclient.OnlyMetadata).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return versionIn(raw)
}

// Write stores a ledger if its resource version is still the stored one, or creates it if it has none. It returns the
// new version. Replacing the object also drops the record of field managers: Bursar is the only writer, and tracking
// costs more than the write. Errors are [ErrConflict] and those of the API server or of etcd.
//
// A write goes to the API server unless this client wrote the replaced version: the answer has the metadata for direct
// writes.
func (c *Client) Write(ctx context.Context, ledger metav1.Object) (string, error) {
	expected := ledger.GetResourceVersion()
	if stored, ok := c.storedAt(ledger.GetName(), expected); ok {
		return c.writeDirectly(ctx, ledger, stored)
	}
	request := c.api.Post().AbsPath(c.path)
	if expected != "" {
		ledger.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
		request = c.api.Put().AbsPath(c.path, ledger.GetName())
	}
	body, err := json.Marshal(ledger)
	if err != nil {
		return "", fmt.Errorf("encode ledger %s: %w", ledger.GetName(), err)
	}
	raw, err := request.SetHeader("Content-Type", "application/json").SetHeader("Accept", restclient.OnlyMetadata).
		Body(body).Do(ctx).Raw()
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && expected != "":
		return "", ErrConflict
	case err != nil:
		return "", err
	}
	stored, err := restclient.StoredIn(raw)
	if err != nil {
		return "", err
	}
	if c.direct != nil {
		c.stored.Add(ledger.GetName(), stored)
	}
	return stored.ResourceVersion, nil
}

// storedAt returns the metadata of a ledger if this client wrote the ledger last, at the given version.
func (c *Client) storedAt(name, version string) (stored restclient.Stored, ok bool) {
	known, _ := c.stored.Get(name)
	stored, ok = known.(restclient.Stored)
	return stored, ok && stored.ResourceVersion == version
}

func (c *Client) writeDirectly(ctx context.Context, ledger metav1.Object, stored restclient.Stored) (string, error) {
	ledger.SetUID(stored.UID)
	ledger.SetCreationTimestamp(stored.CreationTimestamp)
	ledger.SetGeneration(stored.Generation)
	err := c.direct.Update(ctx, c.kind, ledger)
	if apierrors.IsConflict(err) {
		return "", ErrConflict
	}
	if err != nil {
		return "", err
	}
	stored.Generation, stored.ResourceVersion = ledger.GetGeneration(), ledger.GetResourceVersion()
	c.stored.Add(ledger.GetName(), stored)
	return stored.ResourceVersion, nil
}

func versionIn(raw []byte) (string, error) {
	stored, err := restclient.StoredIn(raw)
	return stored.ResourceVersion, err
}
