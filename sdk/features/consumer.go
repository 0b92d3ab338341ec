package features

import (
	"fmt"
	"strings"

	"github.com/open-feature/go-sdk/openfeature"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// consumerOf returns the consumer of an evaluation. Nothing in the evaluation context replaces a consumer with a fixed
// name: the context describes the user of a service, perhaps in the user's own words.
func (p *Provider) consumerOf(flat openfeature.FlattenedContext) (quotav1alpha1.ConsumerRef, error) {
	consumer := p.options.Consumer
	if consumer.Name != "" {
		return consumer, nil
	}
	for key, to := range map[string]*string{
		"consumer.group": &consumer.APIGroup, "consumer.kind": &consumer.Kind, "consumer.namespace": &consumer.Namespace,
		openfeature.TargetingKey: &consumer.Name,
	} {
		if err := override(flat, key, to); err != nil {
			return consumer, err
		}
	}
	if err := override(flat, "consumer.name", &consumer.Name); err != nil {
		return consumer, err
	}
	if consumer.Kind == "" || consumer.Name == "" {
		missing := "consumer.kind"
		if consumer.Name == "" {
			missing = "consumer.name, or a targeting key"
		}
		return consumer, fmt.Errorf("the evaluation context names no consumer: set %s", missing)
	}
	return consumer, nil
}

func override(flat openfeature.FlattenedContext, key string, to *string) error {
	value, isSet := flat[key]
	if !isSet {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s in the evaluation context is %T, not a string", key, value)
	}
	if text = strings.TrimSpace(text); text != "" {
		*to = text
	}
	return nil
}
