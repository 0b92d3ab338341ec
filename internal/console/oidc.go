package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/rest"

	"github.com/bursar/bursar/internal/console/session"
	"github.com/bursar/bursar/internal/console/web"
)

const (
	// loginCookie keeps the data of a login at the provider until the browser returns.
	loginCookie = "__Host-bursar-console-login"
	// loginTime is how long a login at the provider may take.
	loginTime = 10 * time.Minute
	// providerTimeout bounds each request to the provider.
	providerTimeout = 15 * time.Second
	callbackPath    = "/login/oidc/callback"
)

// OIDC logs people in with a provider of OpenID Connect, by the authorization code flow with PKCE. Unless Impersonate
// is set, the API server gets the ID token as bearer token, and has to trust the provider.
type OIDC struct {
	// Name is the provider's name for people.
	Name string
	// IssuerURL is the URL of the provider. ClientID and ClientSecret are those of the console there; the secret may be
	// empty for a public client.
	IssuerURL, ClientID, ClientSecret string
	// URL is the URL of the console without its path, such as https://bursar.example.com. The provider must know URL +
	// "/console/login/oidc/callback".
	URL string
	// Scopes are scopes to request besides openid.
	Scopes []string
	// HTTP reaches the provider. Default: [http.DefaultClient].
	HTTP *http.Client
	// Impersonate makes the console act with its own credentials as the user in the ID token. It is for API servers that
	// do not trust the provider.
	Impersonate *Impersonate

	discovery singleflight.Group
	provider  atomic.Pointer[oidc.Provider]
}

// Impersonate describes how the claims of an ID token name a user of the API server.
type Impersonate struct {
	// Config has the credentials of the console. It needs the right to impersonate, and nothing else.
	Config *rest.Config
	// UsernameClaim and GroupsClaim are claims; their prefixes keep the names apart from others. Without a GroupsClaim,
	// users have no groups.
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	// Groups are the groups that the console may impersonate, with their prefix; it omits others. Empty: all.
	Groups []string
}

// pending is a login that waits for the provider. The browser keeps it in a cookie.
type pending struct {
	State, Nonce, Verifier, To string
	// Former is the reference of the browser's session, or empty. The browser comes back from another site, and so
	// without the cookie of the session.
	Former  string
	Expires time.Time
}

func (o *OIDC) routes(e *entrance, login Server) {
	e.console.Handle("POST "+web.Base+"/login/oidc", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := o.start(w, r, e.sessions.Of(r))
		if err == nil {
			err = leadTo(e, w, "Log in", "Continue to "+o.Name, to)
		}
		if err != nil {
			e.log.Error("cannot begin a login with OpenID Connect", "err", err)
			e.show(w, r, login.form(r), "The login with "+o.Name+" could not begin. Try again, or ask an administrator.", http.StatusBadGateway)
		}
	}))
	e.console.Handle("GET "+web.Base+callbackPath, e.console.InRoom(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		credentials, p, err := o.finish(r, login.API)
		http.SetCookie(w, o.cookie("", -1))
		if err != nil {
			e.log.Error("cannot end a login with OpenID Connect", "err", err)
			e.show(w, r, login.form(r), "The login with "+o.Name+" did not succeed: "+err.Error()+". Try again.", http.StatusUnauthorized)
			return
		}
		if !e.tryBegin(w, r, login, credentials, e.sessions.Referred(p.Former)) {
			return
		}
		// The browser comes from another site, so it would not send the new cookie with a redirect.
		if err := leadTo(e, w, "You are logged in", "Continue to the console", web.Base+pageAfter(p.To)); err != nil {
			e.log.Error("cannot write the page after the login", "err", err)
		}
	})))
}

// leadTo leads the browser to a URL by a page. A redirect would not do: browsers send no strict cookie with a redirect
// that began at another site, and follow no redirect of a form to another site.
func leadTo(e *entrance, w http.ResponseWriter, title, text, url string) error {
	w.Header().Set("Refresh", "0; url="+url)
	return e.console.WritePublic(w, web.Page{Template: "continue", Title: title, Data: map[string]string{"Text": text, "URL": url}})
}

// start returns the URL of the login at the provider. former is the session of the browser, or nil.
func (o *OIDC) start(w http.ResponseWriter, r *http.Request, former *session.Session) (string, error) {
	provider, err := o.discover(r.Context())
	if err != nil {
		return "", err
	}
	p := pending{
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), To: pageAfter(r.FormValue("to")),
		Expires: time.Now().Add(loginTime),
	}
	if former != nil {
		p.Former = former.Reference
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode the login: %w", err)
	}
	http.SetCookie(w, o.cookie(base64.RawURLEncoding.EncodeToString(encoded), int(loginTime.Seconds())))
	return o.client(provider).AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), nil
}

// cookie returns the cookie of a login. It is Lax, because the provider leads the browser back.
func (o *OIDC) cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{Name: loginCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
}

// finish returns the credentials of the person coming back from the provider, and the login that the person began.
func (o *OIDC) finish(r *http.Request, api *rest.Config) (c session.Credentials, p pending, err error) {
	p, err = pendingOf(r)
	if err != nil {
		return c, p, err
	}
	query := r.URL.Query()
	if query.Get("state") != p.State {
		return c, p, errors.New("the answer belongs to another login")
	}
	if denied := query.Get("error"); denied != "" {
		return c, p, fmt.Errorf("the provider answered %q", denied)
	}
	provider, err := o.discover(r.Context())
	if err != nil {
		return c, p, err
	}
	ctx, cancel := o.context(r.Context())
	defer cancel()
	tokens, err := o.client(provider).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return c, p, fmt.Errorf("the provider did not accept the code: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: o.ClientID}).Verify(ctx, raw)
	if err != nil {
		return c, p, fmt.Errorf("the provider gave no valid ID token: %w", err)
	}
	if token.Nonce != p.Nonce {
		return c, p, errors.New("the ID token belongs to another login")
	}
	c, err = o.credentials(api, token, raw)
	return c, p, err
}

// pendingOf returns the login in the cookie of a request.
func pendingOf(r *http.Request) (pending, error) {
	var p pending
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return p, errors.New("it took too long, or the browser sent no cookie")
	}
	decoded, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || json.Unmarshal(decoded, &p) != nil || p.State == "" || time.Now().After(p.Expires) {
		return p, errors.New("it took too long")
	}
	return p, nil
}

// credentials returns those of the person in an ID token.
func (o *OIDC) credentials(api *rest.Config, token *oidc.IDToken, raw string) (session.Credentials, error) {
	if o.Impersonate == nil {
		return session.WithToken(api, raw), nil
	}
	who, err := o.Impersonate.userOf(token)
	if err != nil {
		return session.Credentials{}, err
	}
	config := rest.CopyConfig(o.Impersonate.Config)
	config.Impersonate = who
	return session.Credentials{Config: config, Expires: token.Expiry}, nil
}

// userOf returns the user in the claims of an ID token.
func (i *Impersonate) userOf(token *oidc.IDToken) (rest.ImpersonationConfig, error) {
	var who rest.ImpersonationConfig
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return who, errors.New("the claims of the ID token cannot be read")
	}
	usernameClaim := cmp.Or(i.UsernameClaim, "sub")
	name, _ := claims[usernameClaim].(string)
	if name == "" {
		return who, fmt.Errorf("the ID token has no claim %s", usernameClaim)
	}
	if verified, isKnown := claims["email_verified"]; usernameClaim == "email" && isKnown && verified != true {
		return who, errors.New("the e-mail address is not verified")
	}
	who.UserName = i.UsernamePrefix + name
	if strings.HasPrefix(who.UserName, "system:") {
		return who, errors.New("the name is reserved for Kubernetes")
	}
	for _, group := range texts(claims[i.GroupsClaim]) {
		if group = i.GroupsPrefix + group; !strings.HasPrefix(group, "system:") && (len(i.Groups) == 0 || slices.Contains(i.Groups, group)) {
			who.Groups = append(who.Groups, group)
		}
	}
	return who, nil
}

// texts returns the texts in a claim: a single one, or a list.
func texts(claim any) []string {
	if text, isText := claim.(string); isText {
		return []string{text}
	}
	list, _ := claim.([]any)
	var all []string
	for _, item := range list {
		if text, isText := item.(string); isText {
			all = append(all, text)
		}
	}
	return all
}

// client returns the console as a client of the provider.
func (o *OIDC) client(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: o.URL + web.Base + callbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
	}
}

// discover returns the provider. It asks again after a failure, so the console starts without the provider.
func (o *OIDC) discover(ctx context.Context) (*oidc.Provider, error) {
	if known := o.provider.Load(); known != nil {
		return known, nil
	}
	asked := o.discovery.DoChan("", func() (any, error) {
		ctx, cancel := o.context(context.WithoutCancel(ctx)) // others wait for it as well
		defer cancel()
		provider, err := oidc.NewProvider(ctx, o.IssuerURL)
		if err == nil {
			o.provider.Store(provider)
		}
		return provider, err
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer := <-asked:
		if answer.Err != nil {
			return nil, fmt.Errorf("discover the provider of OpenID Connect at %s: %w", o.IssuerURL, answer.Err)
		}
		return o.provider.Load(), nil
	}
}

// context returns one for a request to the provider.
func (o *OIDC) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	return oidc.ClientContext(ctx, cmp.Or(o.HTTP, http.DefaultClient)), cancel
}
