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
			for name := range strings.SplitSeq(string(text), ".") {
				fields, isMap := object.(traits.Mapper)
				if !isMap {
					return types.False
				}
				value, found := fields.Find(types.String(name))
				if !found {
					return types.False
				}
				object = value
			}
			return types.True
		})))
}
