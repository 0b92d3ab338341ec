package grantpolicy

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/controller/grantpolicy/remote"
)

// controlPlaneSecret is the Secret of a registered control plane.
type controlPlaneSecret struct {
	remote.ControlPlane
	secret *corev1.Secret
}

// followSecrets registers control planes from Secrets.
func (c *Controller) followSecrets(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Core, 0, informers.WithNamespace(c.SystemNamespace))
	informer := factory.Core().V1().Secrets().Informer()
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.secretChanged(object) },
		UpdateFunc: func(_, object any) { c.secretChanged(object) },
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				_, name, _ := cache.SplitMetaNamespaceKey(key)
				c.setControlPlaneSecret(name, nil)
			}
		},
	})
	if err != nil {
		return err
	}
	c.tasks.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return ctx.Err()
	}
	return nil
}

func (c *Controller) secretChanged(object any) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return
	}
	if read, ok := remote.Read(secret); ok && secret.DeletionTimestamp == nil {
		c.setControlPlaneSecret(secret.Name, &controlPlaneSecret{read, secret})
	} else {
		c.setControlPlaneSecret(secret.Name, nil)
	}
}

// setControlPlaneSecret records the registration in a Secret, or nil.
func (c *Controller) setControlPlaneSecret(name string, now *controlPlaneSecret) {
	c.mu.Lock()
	before := c.secrets[name]
	delete(c.secrets, name)
	if now != nil {
		c.secrets[name] = now
	}
	if before != nil && (now == nil || before.Ref != now.Ref) {
		c.registerLocked(before.Ref)
	}
	if now != nil {
		c.registerLocked(now.Ref)
	}
	c.mu.Unlock()
	c.controlPlanesChanged()
}

// registerLocked replaces the control plane of a reference by the one in its oldest Secret.
func (c *Controller) registerLocked(ref remote.Ref) {
	var chosen *controlPlaneSecret
	for _, r := range c.secrets {
		if r.Ref == ref && (chosen == nil || remote.Precedes(r.secret, chosen.secret)) {
			chosen = r
		}
	}
	running := c.controlPlanes[ref]
	if running != nil {
		if chosen != nil && bytes.Equal(running.kubeconfig, chosen.Kubeconfig) {
			running.secret = chosen.secret.Name
			return
		}
		running.stop()
		delete(c.controlPlanes, ref)
	}
	if chosen == nil {
		return
	}
	api, err := connect(chosen.Kubeconfig)
	p := newControlPlane(c, ref, api, err)
	p.kubeconfig, p.secret = chosen.Kubeconfig, chosen.secret.Name
	ctx, stop := context.WithCancel(c.running)
	p.stop = stop
	c.controlPlanes[ref] = p
	c.tasks.Go(func() { p.runRemote(ctx) })
}

// connect returns a client for the grants in the control plane of a kubeconfig. It sends no request.
func connect(kubeconfig []byte) (client.Client, error) {
	config, err := remote.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	scheme, mapper, err := onlyGrants()
	if err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	return api, nil
}

// onlyGrants returns a scheme and a mapper of grants only: a client then needs no discovery.
func onlyGrants() (*runtime.Scheme, apimeta.RESTMapper, error) {
	scheme := runtime.NewScheme()
	if err := quotav1alpha1.AddToScheme(scheme); err != nil {
		return nil, nil, fmt.Errorf("register the API types: %w", err)
	}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{quotav1alpha1.GroupVersion})
	mapper.Add(quotav1alpha1.GroupVersion.WithKind("ResourceGrant"), apimeta.RESTScopeNamespace)
	return scheme, mapper, nil
}
