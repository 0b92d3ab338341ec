package session

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// tokenBytesMax bounds an entered token.
const tokenBytesMax = 16 << 10

// WithToken returns credentials of a bearer token, on the API server of a configuration without credentials.
func WithToken(server *rest.Config, token string) Credentials {
	config := rest.AnonymousClientConfig(server)
	config.Dial, config.Transport, config.Proxy = server.Dial, server.Transport, server.Proxy
	config.BearerToken = token
	return Credentials{Config: config, Expires: expiryOf(token)}
}

// IsToken reports whether a text can be a bearer token, as RFC 6750 describes it.
func IsToken(text string) bool {
	const others = "-._~+/="
	return text != "" && len(text) <= tokenBytesMax && strings.IndexFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(others, r)
	}) < 0
}

// expiryOf returns when a JSON Web Token expires, by its claim exp (RFC 7519), or zero for other tokens. It does not
// verify the token: the API server does.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}
