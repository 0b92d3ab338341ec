// Package claims reads and writes ResourceClaims. It has the client for claims, the encoding of claims in
// reservations ([Intent], [Reference]), and the status of a claim after a decision. The client is live: it caches
// nothing.
//
// Package engine, controllers and webhooks import it. The compact cache of all claims is in package claimcache.
package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/kube/restclient"
)

const resource = "resourceclaims"

// Client reads and writes claims in the API server. It caches nothing.
type Client struct {
	rest   rest.Interface
	direct Direct
}

// Direct creates objects past the API server, as package directstore does. It is an interface because the operator is
// built without etcd.
type Direct interface {
	Create(ctx context.Context, resource schema.GroupResource, object metav1.Object) error
}

// NewClient returns a client for the API server of config. It creates claims with direct if that is not nil.
func NewClient(config *rest.Config, httpClient *http.Client, direct Direct) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the claim types: %w", err)
	}
	client, err := restclient.New(config, httpClient, quotav1alpha1.GroupVersion, scheme)
	if err != nil {
		return nil, err
	}
	return &Client{rest: client, direct: direct}, nil
}

// REST returns the underlying client, for watches.
func (c *Client) REST() rest.Interface { return c.rest }

// Get reads a claim from the API server.
func (c *Client) Get(ctx context.Context, name types.NamespacedName) (*quotav1alpha1.ResourceClaim, error) {
	claim := &quotav1alpha1.ResourceClaim{}
	err := c.rest.Get().Namespace(name.Namespace).Resource(resource).Name(name.Name).Do(ctx).Into(claim)
	if err != nil {
		return nil, err
	}
	return claim, nil
}

// Create creates a claim together with its status: directly, or in [quotav1alpha1.GrantedVersion]. It returns the
// claim with its metadata as stored: UID, version and generation.
func (c *Client) Create(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	if c.direct != nil {
		created := claim.DeepCopy()
		created.APIVersion, created.Kind = quotav1alpha1.GroupVersion.String(), "ResourceClaim"
		if err := c.direct.Create(ctx, quotav1alpha1.GroupVersion.WithResource(resource).GroupResource(), created); err != nil {
			return nil, err
		}
		return created, nil
	}

	sent := *claim
	sent.APIVersion, sent.Kind = quotav1alpha1.GroupName+"/"+quotav1alpha1.GrantedVersion, "ResourceClaim"
	body, err := json.Marshal(&sent)
	if err != nil {
		return nil, fmt.Errorf("encode claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	// A retry in the client would hide that the first request may have created the claim.
	result := c.rest.Post().MaxRetries(0).AbsPath("/apis", sent.APIVersion, "namespaces", claim.Namespace, resource).Body(body).
		SetHeader("Accept", restclient.OnlyMetadata).SetHeader("Content-Type", runtime.ContentTypeJSON).Do(ctx)
	if err := result.Error(); err != nil { // unlike the error of Raw, it contains the API server's message
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}

	stored, err := restclient.StoredIn(raw)
	if err != nil {
		return nil, fmt.Errorf("create claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	created := claim.DeepCopy()
	created.UID, created.ResourceVersion, created.Generation = stored.UID, stored.ResourceVersion, stored.Generation
	return created, nil
}

// claimStatus is the part of a claim that a status update needs. The API server ignores the rest, and would have to
// decode it.
type claimStatus struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        claimVersion                      `json:"metadata"`
	Status          quotav1alpha1.ResourceClaimStatus `json:"status"`
}

type claimVersion struct {
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
}

// UpdateStatus writes the status of a claim, if the claim has not changed since it was read.
func (c *Client) UpdateStatus(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	body, err := json.Marshal(claimStatus{
		TypeMeta: metav1.TypeMeta{APIVersion: quotav1alpha1.GroupVersion.String(), Kind: "ResourceClaim"},
		Metadata: claimVersion{claim.Namespace, claim.Name, claim.UID, claim.ResourceVersion},
		Status:   claim.Status,
	})
	if err != nil {
		return fmt.Errorf("encode the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return c.rest.Put().Namespace(claim.Namespace).Resource(resource).Name(claim.Name).SubResource("status").
		SetHeader("Accept", restclient.OnlyMetadata).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

// Delete deletes the claim with the name and the UID.
func (c *Client) Delete(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	return c.rest.Delete().Namespace(name.Namespace).Resource(resource).Name(name.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
}

// Amend writes new requests into a claim, and completes its status with the status function. It skips writes without a
// change.
func (c *Client) Amend(ctx context.Context, claim *quotav1alpha1.ResourceClaim, requests []quotav1alpha1.ResourceRequest, status func(*quotav1alpha1.ResourceClaim)) error {
	amended := claim.DeepCopy()
	if !equality.Semantic.DeepEqual(amended.Spec.Requests, requests) {
		raw, err := c.patch(ctx, claim, map[string]any{"spec": map[string]any{"requests": requests}}, map[string]any{})
		if err != nil {
			return err
		}
		stored, err := restclient.StoredIn(raw)
		if err != nil {
			return fmt.Errorf("patch claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		amended.Spec.Requests, amended.ResourceVersion, amended.Generation = requests, stored.ResourceVersion, stored.Generation
	}
	before := amended.Status.DeepCopy()
	if status(amended); equality.Semantic.DeepEqual(*before, amended.Status) {
		return nil
	}
	return c.UpdateStatus(ctx, amended)
}

// Touch gives a claim another version, if it still has the given one. So the API server refuses all writes over that.
func (c *Client) Touch(ctx context.Context, claim *quotav1alpha1.ResourceClaim, now time.Time) error {
	_, err := c.patch(ctx, claim, map[string]any{}, map[string]any{"annotations": map[string]any{
		quotav1alpha1.AnnotationUndecidedAt: now.UTC().Format(time.RFC3339Nano),
	}})
	return err
}

// Supersede marks a claim for removal although its object exists.
func (c *Client) Supersede(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	_, err := c.patch(ctx, claim, map[string]any{}, map[string]any{"annotations": map[string]any{quotav1alpha1.AnnotationSuperseded: "true"}})
	return err
}

// AddFinalizer adds Bursar's finalizer to a claim without it.
func (c *Client) AddFinalizer(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	return c.setFinalizers(ctx, claim, append(slices.Clone(claim.Finalizers), quotav1alpha1.FinalizerQuotaRelease))
}

// RemoveFinalizer removes Bursar's finalizer from a deleted claim.
func (c *Client) RemoveFinalizer(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	return c.setFinalizers(ctx, claim, slices.DeleteFunc(slices.Clone(claim.Finalizers), func(finalizer string) bool {
		return finalizer == quotav1alpha1.FinalizerQuotaRelease
	}))
}

func (c *Client) setFinalizers(ctx context.Context, claim *quotav1alpha1.ResourceClaim, finalizers []string) error {
	_, err := c.patch(ctx, claim, map[string]any{}, map[string]any{"finalizers": finalizers})
	return err
}

// patch changes a claim and its metadata, if the claim still has the given version, if any. It returns the metadata as
// stored.
func (c *Client) patch(ctx context.Context, claim *quotav1alpha1.ResourceClaim, change, metadata map[string]any) ([]byte, error) {
	meta := map[string]any{"uid": claim.UID}
	if claim.ResourceVersion != "" {
		meta["resourceVersion"] = claim.ResourceVersion
	}
	maps.Copy(meta, metadata)
	change["metadata"] = meta
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode a patch for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return c.rest.Patch(types.MergePatchType).Namespace(claim.Namespace).Resource(resource).Name(claim.Name).
		SetHeader("Accept", restclient.OnlyMetadata).Body(patch).Do(ctx).Raw()
}
