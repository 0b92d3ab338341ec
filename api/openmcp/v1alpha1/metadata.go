package v1alpha1

// keyPrefix is the prefix of all labels and annotations here but one.
const keyPrefix = "quota." + GroupName

// Labels of namespaces, ResourceQuotas and QuotaIncreases.
const (
	// LabelBase is, on a namespace, the name of the definition of its ResourceQuota. Bursar sets it.
	LabelBase = keyPrefix + "/base"

	// LabelMode is, on a namespace and on the QuotaIncreases in it, the mode of that definition. Bursar sets it.
	LabelMode = keyPrefix + "/mode"

	// LabelManagedBy is, on a namespace and on the ResourceQuota generated in it, the name of the QuotaServiceConfig
	// with the definition. While that has a definition for the namespace, no other QuotaServiceConfig changes it.
	// Bursar sets it.
	LabelManagedBy = keyPrefix + "/managed-by"

	// LabelDefinition is, on a generated ResourceQuota, the name of the definition. Bursar sets it.
	LabelDefinition = keyPrefix + "/quota-definition"

	// LabelUse is, on a namespace, the name of the counting QuotaIncrease in singular mode. People set it.
	LabelUse = keyPrefix + "/use"
)

// Annotations.
const (
	// AnnotationEffect is, on a QuotaIncrease, its contribution to the ResourceQuota, such as "count/configmaps: 10,
	// count/secrets: 50", ordered by resource. In singular mode it begins with [EffectActive] on the QuotaIncrease named
	// by the namespace. It is empty without an effect. Bursar sets it.
	AnnotationEffect = keyPrefix + "/effect"

	// AnnotationToBeDeleted is, on a QuotaIncrease, the reason for its deletion without previewDeletion in its definition.
	// Bursar removes the annotation once there is no such reason. Bursar sets it.
	AnnotationToBeDeleted = keyPrefix + "/to-be-deleted"

	// AnnotationComposition is, on a generated ResourceQuota, the composition of each amount, such as "count/secrets:
	// 165 = base 10 + big 100 + medium 50 + small 5". Bursar sets it.
	AnnotationComposition = keyPrefix + "/composition"

	// AnnotationTemplateKeys is, on a generated ResourceQuota, the list, as JSON, of the keys of its labels and
	// annotations from the template. Bursar removes a key once the template drops it. It leaves the keys of others. Bursar
	// sets it.
	AnnotationTemplateKeys = keyPrefix + "/template-keys"

	// AnnotationOperation and AnnotationQuotaOperation are [OperationIgnore] on a namespace to keep it from changes by
	// Bursar. People set it.
	AnnotationOperation      = GroupName + "/operation"
	AnnotationQuotaOperation = keyPrefix + "/operation"
)

const (
	// EffectActive begins the effect of the counting QuotaIncrease in singular mode.
	EffectActive = "[active]"

	// OperationIgnore is the value of [AnnotationOperation] to keep a namespace from changes by Bursar: it creates,
	// changes and deletes nothing in it, except the status of its QuotaIncreases.
	OperationIgnore = "ignore"
)
