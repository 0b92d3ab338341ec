package policy

import "testing"

func TestFunctions(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"lower":                {"of a field", "{{.trigger.metadata.name | lower}}", "web"},
		"lower number":         {"a number is a text", "{{lower 3}}", "3"},
		"upper":                {"plain", `{{upper "web"}}`, "WEB"},
		"title":                {"each word, the rest as it is", `{{title "big élan isn't  SMALL"}}`, "Big Élan Isn't  SMALL"},
		"trim":                 {"white space around", "{{trim \" \\t a b\\n\"}}", "a b"},
		"toString":             {"a number becomes comparable to a text", `{{eq (toString .trigger.spec.replicas) "3"}}`, "true"},
		"default":              {"the documented example", `{{default "milo-system" .trigger.metadata.namespace}}`, "shop"},
		"default of zero":      {"zero is empty", "{{default 7 0}}", "7"},
		"default of empty":     {"so is an empty list", `{{default "none" (slice .user.groups 0 0)}}`, "none"},
		"replace":              {"the text comes last", `{{replace "." "-" "a.b.c"}}`, "a-b-c"},
		"replace piped":        {"so that it can be piped", `{{"a.b" | replace "." ""}}`, "ab"},
		"contains":             {"the container comes last", `{{contains "eb" .trigger.metadata.name}}`, "true"},
		"contains not":         {"another text", `{{"Web" | contains "x"}}`, "false"},
		"contains in list":     {"an item", `{{contains "ops" .user.groups}} {{contains "op" .user.groups}}`, "true false"},
		"contains in mixed":    {"numbers are items, objects are passed over", `{{contains 443 .trigger.spec.ports}} {{contains "x" .trigger.spec.ports}}`, "true false"},
		"split":                {"parts by position", `{{index (split "/" "a/b/c") 1}}`, "b"},
		"split fields":         {"and by field", `{{(split "/" "a/b/c")._2}}`, "c"},
		"split default":        {"a part that may be missing", `{{default "x" (split "/" "a/b")._2}}`, "x"},
		"split unseparated":    {"one part", `{{len (split "/" "abc")}}`, "1"},
		"join":                 {"the list comes last", `{{join "," .user.groups}}`, "dev,ops"},
		"join split":           {"they undo each other", `{{split "/" "a/b" | join "-"}}`, "a-b"},
		"join nothing":         {"an empty list is an empty text", `{{join "," (slice .user.groups 0 0)}}`, ""},
		"toInt of text":        {"white space does not matter", "{{toInt .trigger.spec.digits}}", "42"},
		"toInt of int":         {"is itself", "{{toInt .trigger.spec.huge}}", "9007199254740993"},
		"toInt of whole float": {"as JSON has no integers", "{{eq (toInt .trigger.spec.whole) 3}}", "true"},
		"toInt of literal":     {"negative", `{{toInt "-5"}}`, "-5"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, sample())
			if reasons != nil || got != tc.want {
				t.Errorf("%s: %s = %q, %q, want %q", tc.reason, tc.source, got, reasons, tc.want)
			}
		})
	}
}

func TestFunctionErrors(t *testing.T) {
	for name, tc := range map[string]struct{ reason, source, want string }{
		"lower":             {"an object is no text", "{{lower .trigger.spec}}", "1:3: lower: the argument is an object, not a text"},
		"upper":             {"a list is no text", "{{upper .user.groups}}", "1:3: upper: the argument is a list, not a text"},
		"trim":              {"nothing is no text", "{{trim (default .trigger.a .trigger.b)}}", "1:3: trim: the argument has no value"},
		"replace":           {"any of its arguments", `{{replace .trigger "a" "b"}}`, "1:3: replace: the argument is an object, not a text"},
		"contains":          {"an object has no parts", `{{contains "a" .trigger.spec}}`, "1:3: contains: the argument is an object, not a text"},
		"contains item":     {"an object cannot be looked for", `{{contains .trigger.spec .user.groups}}`, "1:3: contains: the argument is an object, not a text"},
		"split":             {"a list is split already", `{{split "," .user.groups}}`, "1:3: split: the argument is a list, not a text"},
		"join":              {"a text is no list", `{{join "," .user.name}}`, "1:3: join: the argument is a text, not a list"},
		"join separator":    {"the separator comes first", `{{join .user.groups ","}}`, "1:3: join: the argument is a list, not a text"},
		"join item":         {"an item that is no text", `{{join "," .trigger.spec.ports}}`, "1:3: join: item 2 is an object, not a text"},
		"toInt word":        {"no digits", "{{toInt .user.name}}", `1:3: toInt: "jane" is not a whole number of 64 bits`},
		"toInt fraction":    {"nothing is rounded", "{{toInt .trigger.spec.ratio}}", `1:3: toInt: "0.25" is not a whole number of 64 bits`},
		"toInt too large":   {"nothing wraps", "{{toInt .trigger.spec.billion}}", `1:3: toInt: "1000000000000000000000" is not a whole number of 64 bits`},
		"index of text":     {"a text has no items", `{{index .user.name 0}}`, "1:3: index: the argument is a text, not an object or a list"},
		"index by number":   {"objects have names", `{{index .trigger 0}}`, "1:3: index: the key is a number, but the keys of an object are texts"},
		"index by text":     {"lists have positions", `{{index .user.groups "a"}}`, "1:3: index: the key is a text, but the items of a list are counted from 0"},
		"index past end":    {"there are two", `{{index .user.groups 2}}`, `1:3: index: there is nothing under "2"`},
		"index before zero": {"there are none", `{{index .user.groups -1}}`, `1:3: index: there is nothing under "-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, reasons := renderText(tc.source, sample())
			if len(reasons) != 1 || reasons[0] != tc.want {
				t.Errorf("%s: %s = %q, %q, want %q", tc.reason, tc.source, got, reasons, tc.want)
			}
		})
	}
}
