// Package secrets reads Secrets without their content. The API server sends them as a table, in which each row has the
// metadata and the type of a Secret. (As PartialObjectMetadata they would lack the type.)
package secrets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Kind is the kind of Secrets.
var Kind = corev1.SchemeGroupVersion.WithKind("Secret")

const (
	// asTable makes the API server answer with tables. There is no other content type to fall back to: whole Secrets are
	// never an answer.
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	// typeColumn is the name of the column with the types.
	typeColumn = "Type"
)

// Client reads Secrets. Each has its apiVersion, kind, metadata and type, and nothing else. Create it with [New].
type Client struct {
	rest      rest.Interface
	namespace string
}

// New returns a client for the Secrets of all namespaces, on the API server of config.
func New(config *rest.Config, httpClient *http.Client) (*Client, error) {
	tables := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(tables); err != nil {
		return nil, fmt.Errorf("make a client for Secrets: %w", err)
	}
	metav1.AddToGroupVersion(tables, schema.GroupVersion{Version: "v1"})

	config = rest.CopyConfig(config)
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(tables).WithoutConversion()
	config.AcceptContentTypes, config.ContentType = asTable, runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for Secrets: %w", err)
	}
	return &Client{rest: client}, nil
}

// In returns a client for the Secrets of one namespace.
func (c *Client) In(namespace string) *Client { return &Client{c.rest, namespace} }

func (c *Client) get(o metav1.ListOptions) *rest.Request {
	request := c.rest.Get().NamespaceIfScoped(c.namespace, c.namespace != "").Resource("secrets").
		VersionedParams(&o, scheme.ParameterCodec).Param("includeObject", string(metav1.IncludeMetadata))
	if o.TimeoutSeconds != nil {
		request.Timeout(time.Duration(*o.TimeoutSeconds) * time.Second)
	}
	return request
}

// List lists Secrets. Its errors are those of the API server, or about the form of its answer.
func (c *Client) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	var table metav1.Table
	if err := c.get(o).Do(ctx).Into(&table); err != nil {
		return nil, err //nolint:wrapcheck // callers look at the status
	}

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	list.SetResourceVersion(table.ResourceVersion)
	list.SetContinue(table.Continue)
	list.SetRemainingItemCount(table.RemainingItemCount)
	var columns columns
	columns.read(&table)
	for i := range table.Rows {
		secret, err := columns.secretOf(&table.Rows[i])
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *secret)
	}
	return list, nil
}

// Watch watches Secrets. An answer in another form is an event of type Error.
func (c *Client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	tables, err := c.get(o).Watch(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // callers look at the status
	}

	var columns columns
	return watch.Filter(tables, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Error {
			return event, true
		}
		secret, err := columns.secretIn(event.Object)
		if err != nil {
			status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
			return watch.Event{Type: watch.Error, Object: &status}, true
		}
		return watch.Event{Type: event.Type, Object: secret}, true
	}), nil
}

// columns knows which column has the type, counted from 1. It is 0 before the first table with headers: of the tables
// in a watch, only the first one has them.
type columns struct{ typeAt int }

func (c *columns) read(table *metav1.Table) {
	for i := range table.ColumnDefinitions {
		if table.ColumnDefinitions[i].Name == typeColumn {
			c.typeAt = i + 1
		}
	}
}

// secretIn returns the Secret in a table of one row.
func (c *columns) secretIn(object runtime.Object) (*unstructured.Unstructured, error) {
	table, isTable := object.(*metav1.Table)
	if !isTable || len(table.Rows) != 1 {
		return nil, fmt.Errorf("watch Secrets: the API server sent no table of one row, but a %T", object)
	}
	c.read(table)
	return c.secretOf(&table.Rows[0])
}

func (c *columns) secretOf(row *metav1.TableRow) (*unstructured.Unstructured, error) {
	if c.typeAt == 0 || c.typeAt > len(row.Cells) {
		return nil, errors.New("read Secrets: the table of the API server has no column " + typeColumn)
	}
	var object struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
		return nil, fmt.Errorf("decode the metadata of a Secret: %w", err)
	}

	secret := &unstructured.Unstructured{Object: map[string]any{"metadata": object.Metadata, "type": row.Cells[c.typeAt-1]}}
	secret.SetGroupVersionKind(Kind)
	return secret, nil
}
