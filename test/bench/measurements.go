package main

import (
	"context"
	"fmt"
	"strings"
)

// measurement is a measurement in closed loops.
type measurement struct {
	name    string
	measure func(*bench, context.Context) error
}

// measurements are all measurements, in the order in which bench takes them: those with the largest remains come last.
var measurements = []measurement{
	{"sidebyside", (*bench).measureSideBySide},
	{"creates", (*bench).measureCreates},
	{"consoles", (*bench).measureConsoles},
	{"reviews", (*bench).measureReviews},
	{"release", (*bench).measureRelease},
	{"manypolicies", (*bench).measureManyPolicies},
	{"switchoff", (*bench).measureSwitchOff},
	{"otherpolicies", (*bench).measureOtherPolicies},
	{"adoption", (*bench).measureAdoption},
	{"import", (*bench).measureImport},
	{"restart", (*bench).measureRestart},
	{"memory", (*bench).measureMemory},
}

// allMeasurements is a list of their names.
func allMeasurements() string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return strings.Join(names, ",")
}

// chosenFrom returns the measurements in a list of names.
func chosenFrom(list string) ([]measurement, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	var chosen []measurement
	for _, m := range measurements {
		if wanted[m.name] {
			chosen = append(chosen, m)
		}
		delete(wanted, m.name)
	}
	for name := range wanted {
		return nil, fmt.Errorf("there is no measurement %q: choose from %s", name, allMeasurements())
	}
	return chosen, nil
}

// measureClosedLoops takes the chosen measurements.
func (b *bench) measureClosedLoops(ctx context.Context) error {
	for _, m := range b.measured {
		if err := m.measure(b, ctx); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	return nil
}
