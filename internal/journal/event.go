package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
	"github.com/bursar/bursar/internal/naming"
)

// eventTypePrefix precedes the kind of the entry.
const eventTypePrefix = "com.miloapis.quota.journal."

// event is an entry as a CloudEvent 1.0 in its JSON format. Bursar writes and reads it by the million. The general
// codec of CloudEvents is not made for so many; a test compares the two.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            data      `json:"data"`
}

type data struct {
	Consumer     quotav1alpha1.ConsumerRef `json:"consumerRef"`
	Sequence     int64                     `json:"sequence"`
	ResourceType string                    `json:"resourceType,omitempty"`
	Dimensions   map[string]string         `json:"dimensions,omitempty"`
	Change       int64                     `json:"change"`
	Used         int64                     `json:"used"`
	Limit        int64                     `json:"limit"`
	Object       *Object                   `json:"object,omitempty"`
	Claim        string                    `json:"claim,omitempty"`
	Policy       string                    `json:"policy,omitempty"`
	Grant        string                    `json:"grant,omitempty"`
	Actor        string                    `json:"actor,omitempty"`
	Opening      *Opening                  `json:"opening,omitempty"`
}

// ID returns the identity of the entry: the name of the ledger and the sequence.
func (e *Entry) ID() string {
	return naming.Ledger(e.Consumer) + "." + strconv.FormatInt(e.Sequence, 10)
}

// MarshalJSON returns the entry as a CloudEvent in one line.
func (e *Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(&event{
		SpecVersion: "1.0", ID: e.ID(), Type: eventTypePrefix + string(e.Kind), Time: e.Time.UTC(), DataContentType: "application/json",
		Source:  "/apis/" + quotav1alpha1.GroupVersion.String() + "/consumerledgers/" + naming.Ledger(e.Consumer),
		Subject: e.Consumer.Kind + "/" + e.Consumer.Name,
		Data: data{
			Consumer: e.Consumer, Sequence: e.Sequence, ResourceType: e.ResourceType, Dimensions: e.Dimensions, Change: e.Change,
			Used: e.Used, Limit: e.Limit, Object: e.Object, Claim: e.Claim, Policy: e.Policy, Grant: e.Grant, Actor: e.Actor, Opening: e.Opening,
		},
	})
}

// UnmarshalJSON reads the form of MarshalJSON. It fails for other CloudEvents.
func (e *Entry) UnmarshalJSON(line []byte) error {
	var v event
	if err := json.Unmarshal(line, &v); err != nil {
		return err
	}
	kind, isEntry := strings.CutPrefix(v.Type, eventTypePrefix)
	if !isEntry || v.SpecVersion != "1.0" {
		return fmt.Errorf("event %q of type %q and version %q is not an entry of a journal", v.ID, v.Type, v.SpecVersion)
	}
	d := &v.Data
	*e = Entry{
		Kind: Kind(kind), Time: v.Time, Consumer: d.Consumer, Sequence: d.Sequence, ResourceType: d.ResourceType, Dimensions: d.Dimensions,
		Change: d.Change, Used: d.Used, Limit: d.Limit, Object: d.Object, Claim: d.Claim, Policy: d.Policy, Grant: d.Grant, Actor: d.Actor,
		Opening: d.Opening,
	}
	return nil
}
