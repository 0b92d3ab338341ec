package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	type at struct {
		Name string
		Line int
	}
	for name, tt := range map[string]struct {
		reason, manifest string
		want             []at
		problems         []int
	}{
		"One":       {"a document without separators", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", []at{{"a", 1}}, nil},
		"Two":       {"the second one begins after the separator", "---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n--- # next\napiVersion: v1\nkind: A\nmetadata: {name: b}\n", []at{{"a", 2}, {"b", 6}}, nil},
		"Windows":   {"lines end as on Windows", "apiVersion: v1\r\nkind: A\r\nmetadata: {name: a}\r\n---\r\napiVersion: v1\r\nkind: A\r\nmetadata: {name: b}\r\n", []at{{"a", 1}, {"b", 5}}, nil},
		"Empty":     {"comments and empty documents are none", "# nothing\n---\n\n---\n  # still nothing\n", nil, nil},
		"List":      {"the items of a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n- {apiVersion: v1, kind: A, metadata: {name: b}}\n", []at{{"a", 1}, {"b", 1}}, nil},
		"JSON":      {"JSON is YAML", `{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}`, []at{{"a", 1}}, nil},
		"Alias":     {"an alias can stand for gigabytes", "apiVersion: v1\nkind: A\nmetadata: {name: &a a}\nspec:\n- *a\n", nil, []int{5}},
		"Lines":     {"two million empty lines", strings.Repeat("\n", 2<<20) + "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", []at{{"a", 1}}, nil},
		"Broken":    {"a broken document leaves the others", "a: b\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\nx: 1\ny: [\n", []at{{"a", 3}}, []int{1, 8}},
		"Twice":     {"a key that is there twice", "apiVersion: v1\nkind: A\nkind: B\n", nil, []int{3}},
		"Text":      {"a text is no object", "hello\n", nil, []int{1}},
		"BadItem":   {"an item of a list without a kind", "apiVersion: v1\nkind: List\nitems: [{a: b}]\n", nil, []int{1}},
		"BlockText": {"a separator within a text is indented", "apiVersion: v1\nkind: A\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n", []at{{"a", 1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects, problems := Parse(tt.manifest, Bounds{RejectAliases: true})
			var got []at
			for _, o := range objects {
				got = append(got, at{o.GetName(), o.Line})
			}
			var lines []int
			for _, f := range problems {
				lines = append(lines, f.Line)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: objects (-want +got):\n%s", tt.reason, diff)
			}
			if diff := cmp.Diff(tt.problems, lines); diff != "" {
				t.Errorf("%s: lines of problems (-want +got):\n%s%v", tt.reason, diff, problems)
			}
		})
	}
}

// Policies see whole numbers as such, and fail on others.
func TestNumbersStayWhole(t *testing.T) {
	objects, _ := Parse("apiVersion: v1\nkind: App\nspec: {replicas: 3, share: 0.5}\n---\n{\"apiVersion\": \"v1\", \"kind\": \"App\", \"spec\": {\"replicas\": 4}}\n---\nnot an object\n", Bounds{})
	if len(objects) != 2 {
		t.Fatalf("got %d objects, want 2", len(objects))
	}
	for i, want := range []any{int64(3), int64(4)} {
		if got := objects[i].Object["spec"].(map[string]any)["replicas"]; got != want {
			t.Errorf("got %T %v, want %T %v", got, got, want, want)
		}
	}
	if got := objects[0].Object["spec"].(map[string]any)["share"]; got != 0.5 {
		t.Errorf("got %v, want 0.5", got)
	}
}

func TestAliases(t *testing.T) {
	objects, problems := Parse("apiVersion: v1\nkind: A\nmetadata: {name: &a a}\nspec: {other: *a}\n", Bounds{})
	if len(objects) != 1 || len(problems) != 0 {
		t.Fatalf("got %v and %v, want one object", objects, problems)
	}
	if got := objects[0].Object["spec"].(map[string]any)["other"]; got != "a" {
		t.Errorf("got %v, want a", got)
	}
}

// A server reads no document beyond its bounds, and says which one.
func TestBounds(t *testing.T) {
	object := "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"
	for name, tt := range map[string]struct {
		reason, manifest string
		bounds           Bounds
		objects          int
		problems         []int
	}{
		"Documents":       {"as many as are allowed", strings.Repeat("---\n"+object, 3), Bounds{Documents: 3}, 3, nil},
		"DocumentsBeyond": {"none is decoded: the third begins after the separator", strings.Repeat("---\n"+object, 20_000), Bounds{Documents: 2}, 0, []int{10}},
		"Nodes":           {"a document, its map, and a key and a value for each of three fields, with a map", object, Bounds{Nodes: 10}, 1, nil},
		"NodesBeyond":     {"a few hundred bytes can have many nodes", "apiVersion: v1\nkind: A\nx: {" + strings.Repeat("a,", 100) + "}\n", Bounds{Nodes: 50}, 0, []int{1}},
		"NodesOfAll":      {"the documents before stay", object + "---\n" + object, Bounds{Nodes: 15}, 1, []int{5}},
		"Unbounded":       {"a command reads what its user has", strings.Repeat("---\n"+object, 300), Bounds{}, 300, nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects, problems := Parse(tt.manifest, tt.bounds)
			var lines []int
			for _, p := range problems {
				lines = append(lines, p.Line)
			}
			if diff := cmp.Diff(tt.problems, lines); len(objects) != tt.objects || diff != "" {
				t.Errorf("%s: %d objects, want %d; lines of problems (-want +got):\n%s%v", tt.reason, len(objects), tt.objects, diff, problems)
			}
		})
	}
}
