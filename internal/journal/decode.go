package journal

import (
	"bytes"
	"strconv"
	"time"

	quotav1alpha1 "github.com/bursar/bursar/api/quota/v1alpha1"
)

// Decoder decodes entries by the million, several times as fast as [Entry.UnmarshalJSON] and with the same result. It
// knows the order of the fields from [Entry.MarshalJSON], and leaves every other form to UnmarshalJSON. Entries share
// strings and Dimensions, so nobody may change those. The zero value is ready to use. It is not safe for concurrent
// use.
type Decoder struct {
	consumers  map[string]quotav1alpha1.ConsumerRef
	dimensions map[string]map[string]string
	strings    map[string]string
}

// sharedMax bounds each of a decoder's tables. They begin again when they are full.
const sharedMax = 1 << 14

// Decode sets an entry to the entry of a line.
func (d *Decoder) Decode(line []byte, e *Entry) error {
	if d.strings == nil {
		d.consumers, d.dimensions, d.strings = map[string]quotav1alpha1.ConsumerRef{}, map[string]map[string]string{}, map[string]string{}
	}
	*e = Entry{}
	if s := (scanner{rest: line, valid: true}); d.scan(&s, e) {
		return nil
	}
	*e = Entry{}
	return e.UnmarshalJSON(line)
}

// scan decodes a line in the form of MarshalJSON. It reports whether it could.
func (d *Decoder) scan(s *scanner, e *Entry) bool {
	s.expect(`{"specversion":"1.0","id":"`)
	s.text()
	s.expect(`,"source":"`)
	s.text()
	s.expect(`,"type":"` + eventTypePrefix)
	e.Kind = Kind(d.share(s.text()))
	s.expect(`,"subject":"`)
	s.text()
	s.expect(`,"time":"`)
	e.Time = s.time()
	s.expect(`,"datacontenttype":"application/json","data":{"consumerRef":{`)
	e.Consumer = d.consumer(s)
	s.expect(`,"sequence":`)
	e.Sequence = s.number()
	if s.accept(`,"resourceType":"`) {
		e.ResourceType = d.share(s.text())
	}
	if s.accept(`,"dimensions":{`) {
		e.Dimensions = d.dimensionsOf(s)
	}
	s.expect(`,"change":`)
	e.Change = s.number()
	s.expect(`,"used":`)
	e.Used = s.number()
	s.expect(`,"limit":`)
	e.Limit = s.number()
	if s.accept(`,"object":{`) {
		e.Object = d.object(s)
	}
	if s.accept(`,"claim":"`) {
		e.Claim = string(s.text())
	}
	if s.accept(`,"policy":"`) {
		e.Policy = d.share(s.text())
	}
	if s.accept(`,"grant":"`) {
		e.Grant = d.share(s.text())
	}
	if s.accept(`,"actor":"`) {
		e.Actor = d.share(s.text())
	}
	s.expect(`}}`)
	return s.valid && len(s.rest) == 0
}

func (d *Decoder) consumer(s *scanner) quotav1alpha1.ConsumerRef {
	begin := s.rest
	var c quotav1alpha1.ConsumerRef
	if text, found := s.until('}'); found {
		if known, ok := d.consumers[string(text)]; ok {
			return known
		}
	}
	s.rest = begin
	if s.accept(`"apiGroup":"`) {
		c.APIGroup = d.share(s.text())
		s.expect(`,`)
	}
	s.expect(`"kind":"`)
	c.Kind = d.share(s.text())
	s.expect(`,"name":"`)
	c.Name = d.share(s.text())
	if s.accept(`,"namespace":"`) {
		c.Namespace = d.share(s.text())
	}
	text := begin[:len(begin)-len(s.rest)]
	s.expect(`}`)
	if s.valid && bytes.IndexByte(text, '}') < 0 {
		if len(d.consumers) == sharedMax {
			clear(d.consumers)
		}
		d.consumers[string(text)] = c
	}
	return c
}

func (d *Decoder) dimensionsOf(s *scanner) map[string]string {
	begin := s.rest
	if text, found := s.until('}'); found {
		if known, ok := d.dimensions[string(text)]; ok {
			return known
		}
	}
	s.rest = begin
	dimensions := map[string]string{}
	for s.valid {
		s.expect(`"`)
		key := d.share(s.text())
		s.expect(`:"`)
		dimensions[key] = d.share(s.text())
		if !s.accept(`,`) {
			break
		}
	}
	text := begin[:len(begin)-len(s.rest)]
	s.expect(`}`)
	if s.valid && bytes.IndexByte(text, '}') < 0 {
		if len(d.dimensions) == sharedMax {
			clear(d.dimensions)
		}
		d.dimensions[string(text)] = dimensions
	}
	return dimensions
}

func (d *Decoder) object(s *scanner) *Object {
	o := &Object{}
	if s.accept(`"apiGroup":"`) {
		o.APIGroup = d.share(s.text())
		s.separate()
	}
	if s.accept(`"kind":"`) {
		o.Kind = d.share(s.text())
		s.separate()
	}
	if s.accept(`"namespace":"`) {
		o.Namespace = d.share(s.text())
		s.separate()
	}
	if s.accept(`"name":"`) {
		o.Name = string(s.text())
		s.separate()
	}
	if s.accept(`"uid":"`) {
		o.UID = string(s.text())
	}
	s.expect(`}`)
	return o
}

// share returns a string shared by entries.
func (d *Decoder) share(text []byte) string {
	if shared, ok := d.strings[string(text)]; ok {
		return shared
	}
	if len(d.strings) == sharedMax {
		clear(d.strings)
	}
	shared := string(text)
	d.strings[shared] = shared
	return shared
}

// scanner reads JSON in a known order. It is no longer valid after unexpected text.
type scanner struct {
	rest  []byte
	valid bool
}

// accept skips the given text if it comes next.
func (s *scanner) accept(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

func (s *scanner) expect(text string) {
	if !s.accept(text) {
		s.valid = false
	}
}

// separate skips a comma. The comma must be there unless the object ends.
func (s *scanner) separate() {
	if len(s.rest) > 0 && s.rest[0] == '}' {
		return
	}
	s.expect(`,`)
	if len(s.rest) == 0 || s.rest[0] != '"' {
		s.valid = false
	}
}

// text returns a string up to its closing quote, and skips the quote. Strings with escapes, or beyond ASCII, are not
// for it.
func (s *scanner) text() []byte {
	for i, c := range s.rest {
		switch {
		case c == '"':
			text := s.rest[:i]
			s.rest = s.rest[i+1:]
			return text
		case c == '\\' || c < ' ' || c > '~':
			s.valid = false
			return nil
		}
	}
	s.valid = false
	return nil
}

// until returns the text before a character, and skips both.
func (s *scanner) until(end byte) (text []byte, found bool) {
	i := bytes.IndexByte(s.rest, end)
	if i < 0 {
		return nil, false
	}
	text = s.rest[:i]
	s.rest = s.rest[i+1:]
	return text, true
}

// number returns an integer as encoding/json writes it.
func (s *scanner) number() int64 {
	const digitsMax = 20
	n := 0
	for n < len(s.rest) && n < digitsMax && (s.rest[n] == '-' && n == 0 || s.rest[n] >= '0' && s.rest[n] <= '9') {
		n++
	}
	text := s.rest[:n]
	number, err := strconv.ParseInt(string(text), 10, 64)
	if digits := bytes.TrimPrefix(text, []byte{'-'}); err != nil || len(digits) > 1 && digits[0] == '0' {
		s.valid = false
	}
	s.rest = s.rest[n:]
	return number
}

// time returns a time in UTC, and skips the closing quote.
func (s *scanner) time() time.Time {
	text := s.text()
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil || text[len(text)-1] != 'Z' || bytes.IndexByte(text, ',') >= 0 {
		s.valid = false
	}
	return at
}
