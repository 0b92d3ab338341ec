package config

import (
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RequestNotifications configures the receiver of the states of QuotaRequests, such as a ticket system.
type RequestNotifications struct {
	// URL is where the leader posts a CloudEvent for each state, with https or http. It has no user and no password.
	// Default: none, and the leader posts nothing.
	URL string `json:"url,omitempty"`
	// SecretFile is a file with the secret to sign each event by the Standard Webhooks specification: whsec_ and base64,
	// or the bytes of the secret. Bursar reads it at each attempt. Default: none, and events have no signature.
	SecretFile string `json:"secretFile,omitempty"`
}

// check validates the receiver. Errors leave out the URL, as it may contain a password.
func (n *RequestNotifications) check(path *field.Path) field.ErrorList {
	at := path.Child("url")
	if n.URL == "" {
		if n.SecretFile != "" {
			return field.ErrorList{field.Required(at, "give the URL of the receiver, or no file of a secret")}
		}
		return nil
	}
	to, err := url.Parse(n.URL)
	switch {
	case err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Hostname() == "" || to.Fragment != "":
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be of the form https://host/path or http://host/path")}
	case to.User != nil:
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must not have a user or a password: sign the events with a secret")}
	}
	return nil
}
