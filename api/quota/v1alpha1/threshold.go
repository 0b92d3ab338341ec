package v1alpha1

import (
	"fmt"
	"strconv"
)

// AlertThresholdDefault is the default of [AnnotationAlertThreshold], in percent.
const AlertThresholdDefault = 80

// ParseAlertThreshold parses the value of [AnnotationAlertThreshold].
func ParseAlertThreshold(text string) (percent int, err error) {
	percent, err = strconv.Atoi(text)
	if err != nil || percent < 1 || percent > 100 {
		return 0, fmt.Errorf("must be a whole number of percent from 1 to 100, such as %d", AlertThresholdDefault)
	}
	return percent, nil
}
