package validate

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

func decode[T any](raw runtime.RawExtension) (*T, error) {
	if len(raw.Raw) == 0 {
		return nil, errors.New("the object is missing")
	}
	object := new(T)
	if err := json.Unmarshal(raw.Raw, object); err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", explained(err))
	}
	return object, nil
}

// explained names the field and the remedy if a number is something else, such as 10Gi.
func explained(err error) error {
	var wrong *stdjson.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" || wrong.Type.Kind() != reflect.Int64 {
		return err
	}
	return fmt.Errorf("%s must be a whole number of base units, without a unit or quotes, and at most %d, but is a %s",
		wrong.Field, int64(math.MaxInt64), wrong.Value)
}
