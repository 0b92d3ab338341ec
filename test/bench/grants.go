package main

import (
	"context"
	"fmt"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/test/platform"
)

// grants reports the grants of claims to clients. They share one watch, as the parts of an owning service would.
type grants struct {
	api   client.Client
	watch watch.Interface

	mu      sync.Mutex
	granted map[types.UID]*outcome
}

func (b *bench) watchGrants(ctx context.Context) (*grants, error) {
	var list quotav1alpha1.ResourceClaimList
	if err := b.client.List(ctx, &list, client.InNamespace(plenty), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	fromNow := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	events, err := b.client.Watch(ctx, &list, client.InNamespace(plenty), fromNow)
	if err != nil {
		return nil, fmt.Errorf("watch claims: %w", err)
	}
	g := &grants{api: b.client, watch: events, granted: map[types.UID]*outcome{}}
	go g.follow()
	return g, nil
}

func (g *grants) follow() {
	for event := range g.watch.ResultChan() {
		claim, ok := event.Object.(*quotav1alpha1.ResourceClaim)
		if ok && apimeta.IsStatusConditionTrue(claim.Status.Conditions, quotav1alpha1.ConditionGranted) {
			g.of(claim.UID).grant()
		}
	}
}

// outcome is the grant of a claim, reported once.
type outcome struct {
	once  sync.Once
	given chan struct{}
}

func (s *outcome) grant() { s.once.Do(func() { close(s.given) }) }

// of returns the outcome of a claim.
func (g *grants) of(uid types.UID) *outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.granted[uid] == nil {
		g.granted[uid] = &outcome{given: make(chan struct{})}
	}
	return g.granted[uid]
}

func (g *grants) stop() { g.watch.Stop() }

// directClaim creates a claim and waits until it says Granted.
func (g *grants) directClaim(ctx context.Context, _, n int) error {
	claim := &quotav1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "direct-", Namespace: plenty},
		Spec: quotav1alpha1.ResourceClaimSpec{
			ConsumerRef: platform.Consumer(plenty),
			ResourceRef: quotav1alpha1.UnversionedObjectReference{Kind: "ConfigMap", Name: fmt.Sprint(n), Namespace: plenty},
			Requests:    []quotav1alpha1.ResourceRequest{{ResourceType: resourceType, Amount: 1}},
		},
	}
	if err := g.api.Create(ctx, claim); err != nil {
		return err
	}
	select {
	case <-g.of(claim.UID).given:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
