package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/config"
	"github.com/bursar/bursar/test/await"
	"github.com/bursar/bursar/test/platform"
	"github.com/bursar/bursar/test/process"
)

// person runs bursar.
type person struct {
	*testing.T
	binary, kubeconfig string
}

// newPerson returns an administrator with a name.
func newPerson(t *testing.T, name string) *person {
	t.Helper()
	return newPersonIn(t, name, "system:masters", "")
}

// newPersonIn returns a member of a group whose kubeconfig names a namespace.
func newPersonIn(t *testing.T, name, group, namespace string) *person {
	t.Helper()
	binary, err := process.Build()
	must(t, err)
	kubeconfig, err := clientcmd.LoadFromFile(started.Kubeconfig)
	must(t, err)
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = name, []string{group}
	}
	for _, context := range kubeconfig.Contexts {
		context.Namespace = cmp.Or(namespace, context.Namespace)
	}
	path := filepath.Join(t.TempDir(), name+".kubeconfig")
	must(t, clientcmd.WriteToFile(*kubeconfig, path))
	return &person{T: t, binary: binary, kubeconfig: path}
}

// run runs a command line, and returns its output and whether it succeeds.
func (p *person) run(input string, arguments ...string) (string, bool) {
	p.Helper()
	command := exec.CommandContext(p.Context(), p.binary, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err == nil
}

// want runs a command line, expects success or failure, and expects some texts in the output.
func (p *person) want(succeeds bool, texts []string, arguments ...string) string {
	p.Helper()
	output, hasSucceeded := p.run("", arguments...)
	if hasSucceeded != succeeds {
		p.Errorf("bursar %v: succeeded: %t, want %t", arguments, hasSucceeded, succeeds)
	}
	for _, text := range texts {
		if !strings.Contains(output, text) {
			p.Errorf("bursar %v prints\n%s\nwant %q", arguments, output, text)
		}
	}
	return output
}

var requestNamed = regexp.MustCompile(`QuotaRequest ` + config.DefaultSystemNamespace + `/(\S+)`)

// nameIn returns the name of the request in an output.
func nameIn(t *testing.T, output string) string {
	t.Helper()
	match := requestNamed.FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("%q names no request", output)
	}
	return match[1]
}

// Tom requests quota after a denial, and Ann decides, all by bursar.
func TestRequestCommands(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	tom, ann := newPerson(t, "tom"), newPerson(t, "ann")
	const ns = config.DefaultSystemNamespace
	w.mustCreate(w.configMap("a"))
	denial := w.wantExceeded(w.configMap("b"))
	eventually(t, func() error { // a denial may come before the consumer's view of its quota
		var list quotav1alpha1.EffectiveResourceGrantList
		must(t, admin.List(t.Context(), &list, client.InNamespace(ns)))
		if !slices.ContainsFunc(list.Items, func(g quotav1alpha1.EffectiveResourceGrant) bool { return g.Spec.ConsumerRef.Name == w.name }) {
			return errors.New("the quota is not shown")
		}
		return nil
	})

	output, _ := tom.run(denial, "request", "-", "--reason", "a release")
	name := nameIn(t, output)
	if want := "QuotaRequest " + ns + "/" + name + " asks for "; !strings.HasPrefix(name, w.name+"-") || !strings.HasPrefix(output, want) || !strings.Contains(output, "\nIt is Pending: waits for a decision.\n") {
		t.Errorf("got %q, want %q and that it is pending", output, want)
	}
	if listed := ann.want(true, []string{name, "Organization/" + w.name, "tom", "waits for a decision"}, "requests"); !strings.HasPrefix(listed, "NAMESPACE") {
		t.Errorf("the table begins with no namespace: %s", listed)
	}
	ann.want(false, []string{"there is no QuotaRequest " + name + " in namespace default: give -n " + ns + "\n"}, "approve", name)
	tom.want(false, []string{"bursar: approve QuotaRequest " + ns + "/" + name + ": nobody decides on a request of their own\n"}, "approve", name, "-n", ns)
	ann.want(true, []string{"You approved QuotaRequest " + ns + "/" + name, "It is Approved: ResourceGrant request-"}, "approve", name, "-n", ns)
	w.mustCreate(w.configMap("b"))
	ann.want(false, []string{": the request is decided: "}, "deny", name, "-n", ns, "--reason", "no")
	tom.want(false, []string{"is decided already"}, "request", "--withdraw", name, "-n", ns)

	var list quotav1alpha1.QuotaRequestList
	must(t, json.Unmarshal([]byte(ann.want(true, nil, "requests", "-n", ns, "--state", "Approved", "-o", "json")), &list))
	found := false
	for i := range list.Items {
		found = found || list.Items[i].Name == name && list.Items[i].Kind == "QuotaRequest"
	}
	if !found {
		t.Errorf("the approved requests lack %s", name)
	}

	// Tom requests a limit, and Ann approves a part.
	kind := "organization/" + w.name
	output = tom.want(true, []string{"It is Pending"}, "request", "configmaps=9", "--for", kind, "-n", ns, "--reason", "more", "--by", "30d")
	ann.want(true, []string{"configmaps=4 maps (asked: ", "It is PartiallyApproved"}, "approve", nameIn(t, output), "-n", ns, "configmaps=4")
	w.wantBucket(4, 2, 2, 2)

	// Ann denies a request while its requester waits.
	created := strings.TrimSpace(tom.want(true, nil, "request", "configmaps=+9", "--for", kind, "-n", ns, "--reason", "more", "-o", "name"))
	name = strings.TrimPrefix(created, "quotarequest.quota.miloapis.com/")
	tom.want(true, []string{"You withdrew QuotaRequest " + ns + "/" + name}, "request", "--withdraw", name, "-n", ns)
	waiting := make(chan string, 1)
	go func() {
		output, succeeded := tom.run("", "request", "configmaps=+8", "--for", kind, "-n", ns, "--reason", "more", "--wait=5m")
		if succeeded {
			t.Error("a request that is denied succeeds")
		}
		waiting <- output
	}()
	name = w.waitRequest(8)
	ann.want(true, []string{"You denied QuotaRequest " + ns + "/" + name, "It is Denied: ann denied it: not this year."}, "deny", name, "-n", ns, "--reason", "not this year")
	if output := await.Receive(t, soon, waiting); !strings.Contains(output, "It is Denied: ann denied it: not this year.\nbursar: the request is not approved\n") {
		t.Errorf("who waited reads %q", output)
	}
}

// waitRequest waits for a request for an increase, and returns its name.
func (w *world) waitRequest(increase int64) (name string) {
	w.Helper()
	eventually(w, func() error {
		var list quotav1alpha1.QuotaRequestList
		if err := admin.List(w.ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			r := &list.Items[i]
			if asked := r.Spec.Requests[0].Increase; r.Spec.ConsumerRef == w.consumer() && asked != nil && *asked == increase {
				name = r.Name
				return nil
			}
		}
		return fmt.Errorf("there is no request for %d more", increase)
	})
	return name
}

// Failures have an explanation in one sentence.
func TestRequestCommandsFail(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, 1)
	w.wantBucket(1, 0, 1, 0) // from then on the consumer sees its quota
	tom := newPerson(t, "tom")
	kind := "organization/" + w.name
	tom.want(false, []string{"give a reason with --reason"}, "request", "configmaps=2", "--for", kind)
	tom.want(false, []string{"give an amount: TYPE=AMOUNT"}, "request", "--for", kind, "--reason", "more")
	tom.want(false, []string{"namespace default does not show the quota of " + kind + ": give -n " + config.DefaultSystemNamespace + "\n"},
		"request", "configmaps=2", "--for", kind, "-n", "default", "--reason", "more")
	tom.want(false, []string{"is not known in namespace default"}, "request", "configmaps=2", "--for", kind+"-not", "-n", "default", "--reason", "more")
	tom.want(false, []string{"there is no namespace " + w.name + "-not for the quota of ", "kubectl create namespace " + w.name + "-not"},
		"request", w.resourceType()+"=2", "--for", w.consumer().Kind+"."+w.consumer().APIGroup+"/"+w.name+"-not", "-n", w.name+"-not", "--reason", "more")
	full := w.consumer().Kind + "." + w.consumer().APIGroup + "/" + w.name
	tom.want(false, []string{"belongs in namespace " + config.DefaultSystemNamespace}, "request", w.resourceType()+"=2", "--for", full, "-n", "default", "--reason", "more")
	tom.want(false, []string{"there is no QuotaRequest none in namespace default: bursar requests -n default --all lists them"}, "approve", "none", "-n", "default")
	tom.want(true, []string{"No quota request in namespace default waits for a decision."}, "requests", "-n", "default")
}

// The denial names a consumer without any quota in full.
func TestRequestOfTheUngranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	organization := &unstructured.Unstructured{}
	organization.SetGroupVersionKind(schema.GroupVersionKind{Group: platform.Group, Version: "v1", Kind: platform.Kind})
	organization.SetName(w.name)
	w.mustCreate(organization)
	w.policy(w.name, nil)
	tom := newPerson(t, "tom")
	denial := w.wantExceeded(w.configMap("a"))
	if want := " --for " + w.consumer().Kind + "." + w.consumer().APIGroup + "/" + w.name + " -n "; !strings.Contains(denial, want) {
		t.Fatalf("got %q, want %q", denial, want)
	}
	output, succeeded := tom.run(denial, "request", "-", "--reason", "a release")
	if !succeeded || !strings.Contains(output, "It is Pending") {
		t.Errorf("got %q", output)
	}
}

// Under the name kubectl-bursar, the binary is the plugin of kubectl, and kubectl finds it.
func TestPluginByName(t *testing.T) {
	t.Parallel()
	tom := newPerson(t, "tom")
	folder := t.TempDir()
	plugin := filepath.Join(folder, "kubectl-bursar")
	must(t, os.Symlink(tom.binary, plugin))
	for name, tt := range map[string]struct {
		reason    string
		binary    string
		arguments []string
		succeeds  bool
		has       string
		lacks     string
	}{
		"Help":    {"the help names the plugin, which has no server", plugin, []string{"--help"}, true, "kubectl bursar [command]", "standalone"},
		"Error":   {"errors begin with its name", plugin, []string{"approve", "none", "-n", "default"}, false, "kubectl bursar: there is no QuotaRequest none in namespace default: kubectl bursar requests -n default --all lists them", ""},
		"Usage":   {"usage lines, too", plugin, []string{"usage", "more"}, false, "kubectl bursar usage takes no argument \"more\": for one consumer, kubectl bursar usage --consumer more", ""},
		"Kubectl": {"kubectl runs it", tom.binary, []string{"kubectl", "bursar", "requests", "-n", "default"}, true, "waits for a decision. For decided ones: kubectl bursar requests --all.", ""},
	} {
		command := exec.CommandContext(t.Context(), tt.binary, tt.arguments...)
		command.Env = append(os.Environ(), "KUBECONFIG="+tom.kubeconfig, "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
		output, err := command.CombinedOutput()
		if text := string(output); err == nil != tt.succeeds || !strings.Contains(text, tt.has) || tt.lacks != "" && strings.Contains(text, tt.lacks) {
			t.Errorf("%s: %s: %s\n%s", name, tt.reason, err, output)
		}
	}
}
