package operator

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// connectionsMax is how many idle connections to the API server are kept: more than there are
// workers that write at a time.
const connectionsMax = 128

// newHTTPClient returns the HTTP client for what is written with every create. It speaks HTTP/1.1,
// in which many small requests cost both sides less than as streams of one connection.
func newHTTPClient(config *rest.Config) (*http.Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the TLS configuration: %w", err)
	}
	if tls != nil {
		tls = tls.Clone()
		tls.NextProtos = []string{"http/1.1"}
	}
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSClientConfig:     tls,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: connectionsMax,
		IdleConnTimeout:     90 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: config.Timeout}, nil
}
