// Package crdschema checks custom objects as the API server does before it stores them, by their
// CustomResourceDefinition and without a server.
package crdschema

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Schema checks the objects of one version of a kind. It is safe for concurrent use.
type Schema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
}

// New returns the schema of a version of the definition.
func New(definition *apiextensionsv1.CustomResourceDefinition, version string) (*Schema, error) {
	definition = definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, internal, nil); err != nil {
		return nil, fmt.Errorf("convert the definition %s: %w", definition.Name, err)
	}
	props, err := apiextensions.GetSchemaForVersion(internal, version)
	if err != nil {
		return nil, fmt.Errorf("the definition %s: %w", definition.Name, err)
	}
	if props == nil {
		return nil, fmt.Errorf("the definition %s has no version %s", definition.Name, version)
	}
	s := &Schema{}
	if s.structural, err = structuralschema.NewStructural(props.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", definition.Name, err)
	}
	if s.validator, _, err = validation.NewSchemaValidator(props.OpenAPIV3Schema); err != nil {
		return nil, fmt.Errorf("the schema of %s: %w", definition.Name, err)
	}
	s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s, nil
}

// Admit prunes and defaults an object in place, and returns its errors. For a create, old is nil. As in the API server,
// CEL rules run only where the object meets the rest of the schema.
func (s *Schema) Admit(ctx context.Context, object, old map[string]any) field.ErrorList {
	pruning.Prune(object, s.structural, true)
	defaulting.Default(object, s.structural)
	errs := validation.ValidateCustomResource(nil, object, s.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if len(errs) > 0 || s.rules == nil {
		return errs
	}
	var previous any
	if old != nil {
		previous = old
	}
	errs, _ = s.rules.Validate(ctx, nil, s.structural, object, previous, celconfig.RuntimeCELCostBudget)
	return errs
}
