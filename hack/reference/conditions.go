package main

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

const conditionsHead = `# Conditions, reasons and events

` + generated + `Scripts and alerts wait for these: conditions and their reasons, by kind, and the reasons of events. Their names are
stable. Messages are for people, and may change. To wait for a condition:
` + "`kubectl wait --for=condition=Ready claimcreationpolicy/NAME`" + `.

## For GitOps tools

Flux, kpt and other tools ask [kstatus](https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus) whether an
object is as it should be. Each kind with conditions answers in the same way:

| kstatus | condition | meaning |
| --- | --- | --- |
| Current | neither of the two | the object has its effect |
| InProgress | ` + "`Reconciling=True`" + ` | Bursar waits for another object, for quota or for a time, and then goes on by itself |
| Failed | ` + "`Stalled=True`" + ` | nothing happens until somebody changes the object, or the one in conflict with it |

Both repeat the reason and the message of the condition that explains them. A new object is InProgress until Bursar has
processed it, by ` + "`status.observedGeneration: -1`" + `. A disabled policy stays InProgress, because its Ready is False: leave it
out of health checks. A policy that fails for single objects remains Current, so that their owners cannot hold up a
delivery. Argo CD needs a health check of its own for these kinds: Degraded by ` + "`Stalled`" + `, Progressing by
` + "`Reconciling`" + `.

`

// kindConditions are the conditions of a kind.
type kindConditions struct{ kind, comment string }

func conditionsPage(root string) (string, error) {
	var page strings.Builder
	page.WriteString(conditionsHead)
	events := &table{header: []string{"reason", "type", "on", "meaning"}}
	err := eachAPI(root, func(group string, s *source) error {
		if err := writeConditions(&page, s); err != nil {
			return err
		}
		return addEvents(events, s)
	})
	if err != nil {
		return "", err
	}
	page.WriteString("## Events\n\nAn event is in the namespace of its object.\nOne on a cluster-scoped object is in the namespace of the object that it is about, " +
		"or in Bursar's system namespace.\nFor `kubectl describe`, a note without details in the namespace `default` says so.\n\n" + events.String())
	return strings.TrimRight(page.String(), "\n") + "\n", nil
}

// writeConditions writes a section for each kind with conditions. A condition or reason that no kind has is an error.
func writeConditions(page *strings.Builder, s *source) error {
	conditions, err := constantsOf(s, "Condition")
	if err != nil {
		return err
	}
	reasons, err := constantsOf(s, "Reason")
	if err != nil {
		return err
	}
	unused := map[string]bool{}
	for _, c := range slices.Concat(conditions, reasons) {
		unused[c.name] = true
	}
	for _, k := range kindsOf(s) {
		ofKind, why := named(conditions, k.comment), named(reasons, k.comment)
		fmt.Fprintf(page, "## %s\n\n", strings.Replace(k.kind, "QuotaDefinition", "A definition of a QuotaServiceConfig", 1))
		for _, part := range []struct {
			title string
			all   []constant
		}{{"condition", ofKind}, {"reason", why}} {
			rows := &table{header: []string{part.title, "meaning"}}
			for _, c := range part.all {
				delete(unused, c.name)
				rows.add(code(c.value), prose(c.comment))
			}
			if len(rows.rows) == 0 {
				return fmt.Errorf("the comment of %s's conditions names no %s", k.kind, part.title)
			}
			page.WriteString(rows.String())
		}
	}
	for name := range unused {
		return fmt.Errorf("%s is in no comment of a kind's conditions", name)
	}
	return nil
}

// kindsOf returns the types with conditions in their status, in the order of their names.
func kindsOf(s *source) []kindConditions {
	var all []kindConditions
	for _, file := range s.files {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			kind, isStatus := strings.CutSuffix(spec.Name.Name, "Status")
			if !ok || !isStatus {
				return false
			}
			for _, field := range structure.Fields.List {
				if len(field.Names) == 1 && field.Names[0].Name == "Conditions" {
					all = append(all, kindConditions{kind, field.Doc.Text()})
				}
			}
			return false
		})
	}
	slices.SortFunc(all, func(a, b kindConditions) int { return strings.Compare(a.kind, b.kind) })
	return all
}

// named returns the constants with a value that a comment names.
func named(all []constant, comment string) []constant {
	return slices.DeleteFunc(slices.Clone(all), func(c constant) bool {
		return !regexp.MustCompile(`\b` + regexp.QuoteMeta(c.value) + `\b`).MatchString(comment)
	})
}

var (
	// eventType states the type of an event, and perhaps its object.
	eventType = regexp.MustCompile(`^(?:a )?(Normal event|Warning)(?: on an? (\w+))?(: )?`)
	// eventObjects states, for a group, the objects that its events are on.
	eventObjects = regexp.MustCompile(`(?s)events on (?:the )?(.*?)[,.:]`)
)

// addEvents adds a row for each event.
func addEvents(rows *table, s *source) error {
	all, err := constantsOf(s, "Event")
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.name == "EventQuotaRequest" {
			continue // it begins others
		}
		comment := strings.TrimPrefix(c.comment, "A ")
		found := eventType.FindStringSubmatch(comment)
		if found == nil {
			return fmt.Errorf("the comment of %s does not begin with its type, as in %q: %s", c.name, "is a Warning:", c.comment)
		}
		kind, object, meaning := strings.Fields(found[1])[0], found[2], sentence(comment[len(found[0]):])
		if found[3] == "" {
			return fmt.Errorf("the comment of %s has no colon after its type", c.name)
		}
		if strings.Contains(meaning, "It is a Warning if") {
			kind = "Normal, Warning"
		}
		if object == "" {
			if group := eventObjects.FindStringSubmatch(c.about); group != nil {
				object = strings.Join(strings.Fields(group[1]), " ")
			}
		}
		if object == "" {
			return fmt.Errorf("neither the comment of %s nor that of its group says which objects have the event", c.name)
		}
		rows.add(code(c.value), kind, prose(object), prose(meaning))
	}
	return nil
}
