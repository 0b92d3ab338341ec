package why

import "testing"

// Policies see whole numbers as such, and fail on others.
func TestNumbersStayWhole(t *testing.T) {
	objects := ObjectsIn([]byte("apiVersion: v1\nkind: App\nspec: {replicas: 3, share: 0.5}\n---\n{\"apiVersion\": \"v1\", \"kind\": \"App\", \"spec\": {\"replicas\": 4}}\n---\nnot an object\n"))
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
