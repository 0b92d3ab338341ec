package features

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-feature/go-sdk/openfeature"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// The variants of a boolean flag.
const (
	// VariantOn is the variant of a feature that is on.
	VariantOn = "on"
	// VariantOff is the variant of a feature that is off.
	VariantOff = "off"
)

// The figures of an integer flag, after its key and a #. They are also its variants.
const (
	figureLimit     = "limit"
	figureAvailable = "available"
	figureUsed      = "used"
)

// BooleanEvaluation implements [openfeature.FeatureProvider]: whether the consumer has a feature.
func (p *Provider) BooleanEvaluation(_ context.Context, flag string, defaultValue bool, flat openfeature.FlattenedContext) openfeature.BoolResolutionDetail {
	found, detail := p.resolve(flag, flat)
	if detail.Reason != openfeature.TargetingMatchReason {
		return openfeature.BoolResolutionDetail{Value: defaultValue, ProviderResolutionDetail: detail}
	}
	if found.feature == "" {
		return openfeature.BoolResolutionDetail{Value: defaultValue, ProviderResolutionDetail: mismatch(flag, "is not a feature: its flag is an integer")}
	}
	isOn := found.feature == quotav1alpha1.FeatureOn
	if detail.Variant = VariantOff; isOn {
		detail.Variant = VariantOn
	}
	return openfeature.BoolResolutionDetail{Value: isOn, ProviderResolutionDetail: detail}
}

// IntEvaluation implements [openfeature.FeatureProvider]: the limit of a resource type in base units. With #available
// or #used after the key, it is the free or the used part.
func (p *Provider) IntEvaluation(_ context.Context, flag string, defaultValue int64, flat openfeature.FlattenedContext) openfeature.IntResolutionDetail {
	key, figure, isNamed := strings.Cut(flag, "#")
	if !isNamed {
		figure = figureLimit
	}
	found, detail := p.resolve(key, flat)
	var value int64
	switch figure {
	case figureLimit:
		value = found.limit
	case figureAvailable:
		value = found.available
	case figureUsed:
		value = found.used
	default:
		detail = failed(openfeature.NewFlagNotFoundResolutionError(fmt.Sprintf("flag %s: there is no #%s; there are #%s, #%s and #%s",
			flag, figure, figureLimit, figureAvailable, figureUsed)))
	}
	if detail.Reason != openfeature.TargetingMatchReason {
		return openfeature.IntResolutionDetail{Value: defaultValue, ProviderResolutionDetail: detail}
	}
	detail.Variant = figure
	return openfeature.IntResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// FloatEvaluation implements [openfeature.FeatureProvider]. It is [Provider.IntEvaluation] as a floating-point number.
func (p *Provider) FloatEvaluation(ctx context.Context, flag string, defaultValue float64, flat openfeature.FlattenedContext) openfeature.FloatResolutionDetail {
	whole := p.IntEvaluation(ctx, flag, 0, flat)
	value := float64(whole.Value)
	if whole.Reason != openfeature.TargetingMatchReason {
		value = defaultValue
	}
	return openfeature.FloatResolutionDetail{Value: value, ProviderResolutionDetail: whole.ProviderResolutionDetail}
}

// StringEvaluation implements [openfeature.FeatureProvider]: on or off for a feature, and the limit for people, such as
// "1.5 GiB", for any other resource type.
func (p *Provider) StringEvaluation(_ context.Context, flag string, defaultValue string, flat openfeature.FlattenedContext) openfeature.StringResolutionDetail {
	found, detail := p.resolve(flag, flat)
	value := defaultValue
	switch {
	case detail.Reason != openfeature.TargetingMatchReason:
	case found.feature == quotav1alpha1.FeatureOn:
		value, detail.Variant = VariantOn, VariantOn
	case found.feature != "":
		value, detail.Variant = VariantOff, VariantOff
	case found.display == nil:
		detail = mismatch(flag, "has no active registration, so its limit has no unit")
	default:
		value, detail.Variant = found.display.TotalLimit, figureLimit
	}
	return openfeature.StringResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// ObjectEvaluation implements [openfeature.FeatureProvider]. No quota is an object, so it returns the default value
// with TYPE_MISMATCH.
func (p *Provider) ObjectEvaluation(_ context.Context, flag string, defaultValue any, flat openfeature.FlattenedContext) openfeature.InterfaceResolutionDetail {
	_, detail := p.resolve(flag, flat)
	if detail.Reason == openfeature.TargetingMatchReason {
		detail = mismatch(flag, "is not an object: its flag is a boolean or an integer")
	}
	return openfeature.InterfaceResolutionDetail{Value: defaultValue, ProviderResolutionDetail: detail}
}

// resolve finds the quota for a flag. The reason of the detail is TARGETING_MATCH if there is one, DEFAULT if the
// consumer has none, and ERROR otherwise.
func (p *Provider) resolve(key string, flat openfeature.FlattenedContext) (quota, openfeature.ProviderResolutionDetail) {
	known := p.known.Load()
	if known == nil {
		return quota{}, failed(openfeature.NewProviderNotReadyResolutionError(fmt.Sprintf("flag %s: the provider has read no quota yet", key)))
	}
	consumer, err := p.consumerOf(flat)
	if err != nil {
		code := openfeature.NewInvalidContextResolutionError
		if consumer.Name == "" {
			code = openfeature.NewTargetingKeyMissingResolutionError
		}
		return quota{}, failed(code(err.Error()))
	}
	found, isFound, err := known.find(consumer, key)
	if err != nil {
		return quota{}, failed(openfeature.NewFlagNotFoundResolutionError(fmt.Sprintf("flag %s: %v", key, err)))
	}
	metadata := openfeature.FlagMetadata{"consumer": consumer.Kind + "/" + consumer.Name}
	if !isFound {
		return quota{}, openfeature.ProviderResolutionDetail{Reason: openfeature.DefaultReason, FlagMetadata: metadata}
	}
	metadata["limit"], metadata["used"] = found.limit, found.used
	if found.display != nil && found.display.Name != "" {
		metadata["name"] = found.display.Name
	}
	return found, openfeature.ProviderResolutionDetail{Reason: openfeature.TargetingMatchReason, FlagMetadata: metadata}
}

func failed(err openfeature.ResolutionError) openfeature.ProviderResolutionDetail {
	return openfeature.ProviderResolutionDetail{ResolutionError: err, Reason: openfeature.ErrorReason}
}

func mismatch(flag, reason string) openfeature.ProviderResolutionDetail {
	return failed(openfeature.NewTypeMismatchResolutionError(fmt.Sprintf("resource type %s %s", flag, reason)))
}
