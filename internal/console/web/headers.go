package web

import (
	"net/http"
	"strings"
)

// policy lets a page load scripts, styles and images from the console only, and nothing inline.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
	"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
}, "; ")

// setHeaders sets the headers of every answer to a request.
func setHeaders(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	// On this machine, other programs answer at other ports without TLS.
	if host, _, _ := strings.Cut(r.Host, ":"); r.TLS != nil && host != "localhost" {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}
