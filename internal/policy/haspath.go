package policy

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// hasPath declares trigger.has("spec.tier"): whether an object has all fields of a path. It complements the macro
// has(trigger.spec.tier): the macro fails without trigger.spec.
func hasPath() cel.EnvOption {
	return cel.Function("has", cel.MemberOverload("dyn_has_path", []*cel.Type{cel.DynType, cel.StringType}, cel.BoolType,
		cel.BinaryBinding(func(object, path ref.Val) ref.Val {
			text, ok := path.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(path)
			}
			_, found := find(object, strings.Split(string(text), ".")...)
			return types.Bool(found)
		})))
}

// find returns the field at a path below an object, and reports whether there is one.
func find(object ref.Val, path ...string) (ref.Val, bool) {
	for _, name := range path {
		fields, isMap := object.(traits.Mapper)
		if !isMap {
			return nil, false
		}
		value, found := fields.Find(types.String(name))
		if !found {
			return nil, false
		}
		object = value
	}
	return object, true
}
