// Package claims reads and writes ResourceClaims: the requests to the API server that the
// controllers share, and the status that a decision gives a claim.
package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	resource = "resourceclaims"
	// onlyMetadata makes the API server answer with an object's metadata alone.
	onlyMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	onlyMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Client talks to the API server about claims, live: nothing is cached.
type Client struct {
	rest rest.Interface
}

// NewClient returns a client for the API server of config.
func NewClient(config *rest.Config, httpClient *http.Client) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the claim types: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &quotav1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for claims: %w", err)
	}
	return &Client{rest: client}, nil
}

// REST is the underlying client, for watches.
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

// UIDsOf returns the UIDs of a consumer's claims.
func (c *Client) UIDsOf(ctx context.Context, consumer quotav1alpha1.ConsumerRef) (map[types.UID]bool, error) {
	const pageSize = 1000
	selector := fields.Set{"spec.consumerRef.kind": consumer.Kind, "spec.consumerRef.name": consumer.Name}.String()
	uids := map[types.UID]bool{}
	for next := ""; ; {
		raw, err := c.rest.Get().Resource(resource).SetHeader("Accept", onlyMetadataList).Param("fieldSelector", selector).
			Param("limit", strconv.Itoa(pageSize)).Param("continue", next).Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("list the claims of %s %s: %w", consumer.Kind, consumer.Name, err)
		}
		var page metav1.PartialObjectMetadataList
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("decode the claims of %s %s: %w", consumer.Kind, consumer.Name, err)
		}
		for i := range page.Items {
			uids[page.Items[i].UID] = true
		}
		if next = page.Continue; next == "" {
			return uids, nil
		}
	}
}

// Create creates a claim and completes its metadata as stored: UID, version and generation.
func (c *Client) Create(ctx context.Context, claim *quotav1alpha1.ResourceClaim) (*quotav1alpha1.ResourceClaim, error) {
	raw, err := c.rest.Post().Namespace(claim.Namespace).Resource(resource).Body(claim).
		SetHeader("Accept", onlyMetadata).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var stored metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, fmt.Errorf("decode the metadata of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	created := claim.DeepCopy()
	created.UID, created.ResourceVersion, created.Generation = stored.UID, stored.ResourceVersion, stored.Generation
	return created, nil
}

// claimStatus is the part of a claim that a status update needs. The API server takes nothing
// else from it, and would only have to decode the rest.
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
		SetHeader("Accept", onlyMetadata).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

// Delete deletes the claim of that name if it still has that UID.
func (c *Client) Delete(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	return c.rest.Delete().Namespace(name.Namespace).Resource(resource).Name(name.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
}

// AddFinalizer puts Bursar's finalizer on a claim that lacks it.
func (c *Client) AddFinalizer(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	return c.setFinalizers(ctx, claim, append(slices.Clone(claim.Finalizers), quotav1alpha1.FinalizerQuotaRelease))
}

// RemoveFinalizer lets a deleted claim go.
func (c *Client) RemoveFinalizer(ctx context.Context, claim *quotav1alpha1.ResourceClaim) error {
	return c.setFinalizers(ctx, claim, slices.DeleteFunc(slices.Clone(claim.Finalizers), func(finalizer string) bool {
		return finalizer == quotav1alpha1.FinalizerQuotaRelease
	}))
}

func (c *Client) setFinalizers(ctx context.Context, claim *quotav1alpha1.ResourceClaim, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             claim.UID,
		"resourceVersion": claim.ResourceVersion,
		"finalizers":      finalizers,
	}})
	if err != nil {
		return fmt.Errorf("encode a patch for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return c.rest.Patch(types.MergePatchType).Namespace(claim.Namespace).Resource(resource).Name(claim.Name).
		Body(patch).Do(ctx).Error()
}
