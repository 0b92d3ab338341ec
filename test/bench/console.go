package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bursar/bursar/deploy/rbac"
	"github.com/bursar/bursar/internal/console/web"
	"github.com/bursar/bursar/test/platform"
)

const (
	// openConsoles are open beside so many consoleClients with creates, in consoleTurns with and without them.
	openConsoles, consoleClients, consoleTurns = 50, 32, 5
	// openFleets of the people with an open console are administrators.
	openFleets = 5
	// peopleSpace has the ServiceAccounts of the people.
	peopleSpace = "people"
	// pageVisits is the number of loads of a page after the first.
	pageVisits = 9
)

// viewer is a browser with an open page of the standalone server's console.
type viewer struct {
	client *http.Client
	base   string
}

// makePeople makes people with access to the console, and returns their tokens: administrators first, then tenants.
func (b *bench) makePeople(ctx context.Context, administrators, tenants int) ([]string, error) {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: peopleSpace}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: peopleSpace, Namespace: systemSpace},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + peopleSpace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bursar-tenant-viewer"},
		},
	}
	all := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: peopleSpace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bursar-platform-admin"},
	}
	var accounts []*corev1.ServiceAccount
	for n := range administrators + tenants {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("person-%d", n), Namespace: peopleSpace}}
		accounts, objects = append(accounts, account), append(objects, account)
		if n < administrators {
			all.Subjects = append(all.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: peopleSpace, Name: account.Name})
		}
	}
	roles, err := rbac.ForUsers()
	if err != nil {
		return nil, err
	}
	for _, role := range roles { // a standalone server has them
		if err := b.client.Create(ctx, role); client.IgnoreAlreadyExists(err) != nil {
			return nil, err
		}
	}
	for _, object := range append(objects, all) {
		if err := b.client.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	tokens := make([]string, 0, len(accounts))
	for _, account := range accounts {
		token := &authenticationv1.TokenRequest{}
		if err := b.client.SubResource("token").Create(ctx, account, token); err != nil {
			return nil, err
		}
		tokens = append(tokens, token.Status.Token)
	}
	return tokens, nil
}

// newViewer logs in with a token.
func newViewer(ctx context.Context, config *rest.Config, token string) (*viewer, error) {
	settings, err := rest.TLSConfigFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	v := &viewer{client: &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}}, base: strings.TrimSuffix(config.Host, "/")}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base+web.Base+"/login", strings.NewReader(url.Values{"to": {"/login"}, "token": {token}}.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, err = v.read(request)
	return v, err
}

// read sends a request and returns the page in the answer.
func (v *viewer) read(request *http.Request) (string, error) {
	response, err := v.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return string(body), err
}

// open loads a page.
func (v *viewer) open(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+web.Base+path, nil)
	if err != nil {
		return "", err
	}
	return v.read(request)
}

var liveStream = regexp.MustCompile(`data-live="([^"]+)"`)

// watch keeps a page open as its script does, until ctx ends: it loads the page again after each event of its stream.
func (v *viewer) watch(ctx context.Context, path string, loaded *atomic.Int64) error {
	page, err := v.open(ctx, path)
	if err != nil {
		return err
	}
	match := liveStream.FindStringSubmatch(page)
	if match == nil {
		return fmt.Errorf("%s is not live", path)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+strings.ReplaceAll(match[1], "&amp;", "&"), nil)
	if err != nil {
		return err
	}
	stream, err := v.client.Do(request)
	if err != nil {
		return err
	}
	defer stream.Body.Close() //nolint:errcheck // it is over
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if lines.Text() != "event: changed" {
			continue
		}
		if _, err := v.open(ctx, path); err != nil {
			return err
		}
		loaded.Add(1)
	}
	return ctx.Err()
}

// consumerPage is the page of a consumer's quota.
func consumerPage(name string) string {
	return "/quota?" + url.Values{"namespace": {systemSpace}, "consumer": {platform.Kind + "/" + name}}.Encode()
}

// measureConsoles measures creates beside open consoles, in turns with and without them.
func (b *bench) measureConsoles(ctx context.Context) error {
	connections, err := b.connect(consoleClients)
	if err != nil {
		return err
	}
	people, err := b.makePeople(ctx, openFleets, openConsoles-openFleets)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d open consoles beside %d clients that create, %d turns of %s each\n", openConsoles, consoleClients, consoleTurns, b.duration)
	fmt.Println("\n| | creates/s | p50 | p99 | CPU of the server each | pages/s |\n| --- | --- | --- | --- | --- | --- |")
	var all [2]result
	var used [2]time.Duration
	var pages atomic.Int64
	for range consoleTurns {
		for i, viewers := range [][]string{nil, people} {
			r, err := b.besideConsoles(ctx, viewers, &pages, func() result {
				return b.load(ctx, consoleClients, 0, b.creator(connections, plenty))
			})
			if err != nil {
				return err
			}
			used[i] += cpuOf(b.system) - r.cpuBefore
			all[i].elapsed += r.elapsed
			all[i].latencies = append(all[i].latencies, r.latencies...)
		}
	}
	for i, name := range []string{"without consoles", fmt.Sprintf("with %d", openConsoles)} {
		r := &all[i]
		r.summarize(r.latencies)
		loaded := float64(pages.Load()) * float64(i) / r.elapsed.Seconds()
		fmt.Printf("| %s | %.0f | %s | %s | %s | %.1f |\n", name, r.perSecond(), round(r.p50), round(r.p99), round(used[i]/time.Duration(max(r.count, 1))), loaded)
	}
	return nil
}

// besideConsoles runs something beside open consoles, and returns once everything has settled.
func (b *bench) besideConsoles(ctx context.Context, people []string, loaded *atomic.Int64, run func() result) (result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var open sync.WaitGroup
	failures := make(chan error, max(len(people), 1))
	for n, token := range people {
		v, err := newViewer(ctx, b.admin, token)
		if err != nil {
			return result{}, err
		}
		path := consumerPage(plenty)
		if n < openFleets {
			path = "/fleet"
		}
		open.Go(func() {
			if err := v.watch(ctx, path, loaded); err != nil && ctx.Err() == nil {
				failures <- err
			}
			v.client.CloseIdleConnections()
		})
	}
	r := run()
	stop()
	open.Wait()
	select {
	case err := <-failures:
		return r, fmt.Errorf("a console: %w", err)
	default:
	}
	if r.failures > 0 {
		return r, fmt.Errorf("%d creates failed: %w", r.failures, r.failure)
	}
	return r, b.settle(context.WithoutCancel(ctx))
}

// measurePages loads pages of the console with all standing consumers, each in a session of its own: the first time,
// and several times afterwards.
func (b *bench) measurePages(ctx context.Context) error {
	people, err := b.makePeople(ctx, 1, 0)
	if err != nil {
		return err
	}
	fmt.Printf("\n| page of the console | the first time in a session | median of %d more | slowest |\n| --- | --- | --- | --- |\n", pageVisits)
	for _, path := range []string{consumerPage(standing(7)), "/uses?" + strings.TrimPrefix(consumerPage(standing(7)), "/quota?"), "/fleet", "/fleet?q=000042", "/policies", "/inbox"} {
		v, err := newViewer(ctx, b.admin, people[0])
		if err != nil {
			return err
		}
		var first time.Duration
		var more result
		for n := range 1 + pageVisits {
			begin := time.Now()
			if _, err := v.open(ctx, path); err != nil {
				return err
			}
			if took := time.Since(begin); n == 0 {
				first = took
			} else {
				more.latencies = append(more.latencies, took)
			}
		}
		more.summarize(more.latencies)
		fmt.Printf("| `%s` | %s | %s | %s |\n", path, round(first), round(more.p50), round(more.slowest))
		v.client.CloseIdleConnections()
	}
	return nil
}
