package claimcache

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

const (
	resource = "resourceclaims"
	// pageSize is how many claims are asked for at a time: some MiB.
	pageSize = 2000
)

// source lists claims page by page, and decodes no more of each than is kept. A stream of all claims, which
// a reflector asks for otherwise, took this process more than twice the processor time with 15,000 of them.
type source struct{ *cache.ListWatch }

func newSource(client rest.Interface) source {
	return source{&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return list(ctx, client) },
		WatchFuncWithContext: cache.NewListWatchFromClient(client, resource, "", fields.Everything()).WatchWithContext,
	}}
}

// IsWatchListSemanticsUnSupported has a reflector list, and not stream.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

// list reads all claims as they are at one time.
func list(ctx context.Context, client rest.Interface) (*claimList, error) {
	all := &claimList{}
	for {
		raw, err := client.Get().Resource(resource).Param("limit", strconv.Itoa(pageSize)).Param("continue", all.Continue).Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("list claims: %w", err)
		}
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []listed        `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("decode a list of claims: %w", err)
		}
		for i := range page.Items {
			all.Items = append(all.Items, item{Compact(page.Items[i].claim())})
		}
		if all.ListMeta = page.Metadata; all.Continue == "" {
			return all, nil
		}
	}
}

// listed is the part of a claim that is decoded: above all, not who manages its fields, which is half of it.
type listed struct {
	Metadata struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		UID               types.UID         `json:"uid"`
		CreationTimestamp metav1.Time       `json:"creationTimestamp"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		Finalizers        []string          `json:"finalizers"`
	} `json:"metadata"`
	Spec   quotav1alpha1.ResourceClaimSpec `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func (l *listed) claim() *quotav1alpha1.ResourceClaim {
	m := &l.Metadata
	return &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
			Labels: m.Labels, Annotations: m.Annotations, Finalizers: m.Finalizers,
		},
		Spec:   l.Spec,
		Status: quotav1alpha1.ResourceClaimStatus{Conditions: l.Status.Conditions},
	}
}

// claimList and item give claims the form in which a reflector takes them.
type claimList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

type item struct{ *Claim }

func (l *claimList) DeepCopyObject() runtime.Object {
	return &claimList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: append([]runtime.Object(nil), l.Items...)}
}

// DeepCopyObject returns the item itself, since a claim in compact form is immutable.
func (i item) DeepCopyObject() runtime.Object { return i }

// GetObjectKind implements [runtime.Object].
func (item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
