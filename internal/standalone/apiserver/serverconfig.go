package apiserver

import (
	"context"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/webhook"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kubecontrolplane "k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	generic "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic/server"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// newServerConfig does the same as [generic.NewConfig] with five differences, by own options. It calls the webhooks of
// this process without a connection, and passes it the audit events. It allows for other API servers, maybe on the same
// machine, distinguished by id. Some custom resources have no watch cache. It serves the console, and the console's
// sessions end with ctx.
func newServerConfig(ctx context.Context, o options.CompletedOptions, own Options, apiServers int, id string) (*generic.Config, error) {
	genericConfig, informers, storage, err := apiserver.BuildGenericConfig(o,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensions.Scheme, aggregatorscheme.Scheme},
		kubecontrolplane.DefaultGenericAPIResourceConfigSource(), openapi.GetOpenAPIDefinitions)
	if err != nil {
		return nil, err
	}
	genericConfig.APIServerID = id
	if own.Audit != nil {
		genericConfig.AuditBackend, genericConfig.AuditPolicyRuleEvaluator = own.Audit, auditPolicy{}
	}
	services := webhook.NewDefaultServiceResolver()
	plane, initializers, err := apiserver.CreateConfig(o, genericConfig, informers, storage, services, []admission.PluginInitializer{newInProcessCalls(own.Webhooks)})
	if err != nil {
		return nil, err
	}
	resolver := webhook.NewDefaultAuthenticationInfoResolverWrapper(plane.ProxyTransport, plane.Generic.EgressSelector,
		plane.Generic.LoopbackClientConfig, plane.Generic.TracerProvider)
	extensions, err := apiserver.CreateAPIExtensionsConfig(*plane.Generic, plane.VersionedInformers, initializers, o, apiServers, services, resolver)
	if err != nil {
		return nil, err
	}
	extensions.ExtraConfig.CRDRESTOptionsGetter = uncached{extensions.ExtraConfig.CRDRESTOptionsGetter, own.Uncached}
	aggregator, err := apiserver.CreateAggregatorConfig(*plane.Generic, o, plane.VersionedInformers, services, plane.ProxyTransport, plane.Extra.PeerProxy, initializers)
	if err != nil {
		return nil, err
	}
	aggregator.ExtraConfig.DisableRemoteAvailableConditionController = true
	if err := serveConsole(ctx, &aggregator.GenericConfig.Config); err != nil {
		return nil, err
	}
	return &generic.Config{Options: o, ControlPlane: plane, APIExtensions: extensions, Aggregator: aggregator}, nil
}
