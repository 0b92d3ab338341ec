package v1alpha1

// keyPrefix begins every label and annotation here but one.
const keyPrefix = "quota." + GroupName

// Labels of namespaces, ResourceQuotas and QuotaIncreases.
const (
	// LabelBase is, on a namespace, the name of the definition that its ResourceQuota is made from.
	LabelBase = keyPrefix + "/base"

	// LabelMode is, on a namespace and on the QuotaIncreases in it, the mode of that definition.
	LabelMode = keyPrefix + "/mode"

	// LabelManagedBy is, on a namespace and on the ResourceQuota generated in it, the name of the
	// QuotaServiceConfig that the definition is in. While that has a definition for the namespace, no other
	// QuotaServiceConfig touches it.
	LabelManagedBy = keyPrefix + "/managed-by"

	// LabelDefinition is, on a generated ResourceQuota, the name of the definition.
	LabelDefinition = keyPrefix + "/quota-definition"

	// LabelUse is set on a namespace by people. In singular mode it names the QuotaIncrease that counts.
	LabelUse = keyPrefix + "/use"
)

// Annotations.
const (
	// AnnotationEffect tells, on a QuotaIncrease, what it contributes to the ResourceQuota, such as
	// "count/configmaps: 10, count/secrets: 50", ordered by resource. In singular mode it begins with
	// [EffectActive] on the QuotaIncrease that the namespace names. It is empty where there is no effect.
	AnnotationEffect = keyPrefix + "/effect"

	// AnnotationToBeDeleted tells, on a QuotaIncrease, why it would be deleted if its definition did not say
	// previewDeletion. It is gone once it would not be.
	AnnotationToBeDeleted = keyPrefix + "/to-be-deleted"

	// AnnotationComposition tells, on a generated ResourceQuota, what each amount is made of, such as
	// "count/secrets: 165 = base 10 + big 100 + medium 50 + small 5".
	AnnotationComposition = keyPrefix + "/composition"

	// AnnotationTemplateKeys lists, on a generated ResourceQuota and as JSON, the keys of the labels and
	// annotations that it has from the template, so that those which the template drops are removed and
	// those that others have added stay.
	AnnotationTemplateKeys = keyPrefix + "/template-keys"

	// AnnotationOperation and AnnotationQuotaOperation have, on a namespace, the value [OperationIgnore]
	// where quota increases are to leave it alone.
	AnnotationOperation      = GroupName + "/operation"
	AnnotationQuotaOperation = keyPrefix + "/operation"
)

const (
	// EffectActive begins the effect of the QuotaIncrease that counts in singular mode.
	EffectActive = "[active]"

	// OperationIgnore is the value of [AnnotationOperation] with which a namespace is left alone: nothing in it
	// is created, changed or deleted, but for the status of its QuotaIncreases.
	OperationIgnore = "ignore"
)
