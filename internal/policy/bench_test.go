package policy

import "testing"

// One request under the typical policy: two conditions, and six texts with templates.
func BenchmarkMatchesAndRender(b *testing.B) {
	p, in := mustCompile(b, nil), sample()
	b.ReportAllocs()
	for b.Loop() {
		if matches, err := p.Matches(b.Context(), in); err != nil || !matches {
			b.Fatal(matches, err)
		}
		if _, err := p.Render(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatches(b *testing.B) {
	p, in := mustCompile(b, nil), sample()
	b.ReportAllocs()
	for b.Loop() {
		if matches, err := p.Matches(b.Context(), in); err != nil || !matches {
			b.Fatal(matches, err)
		}
	}
}

func BenchmarkRender(b *testing.B) {
	p, in := mustCompile(b, nil), sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Render(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	policy := validPolicy()
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := Compile(policy); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
