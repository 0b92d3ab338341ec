package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve answers forms with their length, from a room. The query names their owner.
func serve(t *testing.T, in *room, working chan struct{}) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, refusal := in.receive(w, r, r.URL.Query().Get("owner"))
		if refusal != nil {
			http.Error(w, refusal.Message, refusal.Status)
			return
		}
		defer leave()
		body, err := io.ReadAll(r.Body)
		if working != nil {
			<-working
		}
		fmt.Fprint(w, len(body), " ", err)
	}))
	t.Cleanup(server.Close)
	return server
}

// begin sends the beginning of a form, and returns the connection.
func begin(t *testing.T, server *httptest.Server, owner string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if _, err := fmt.Fprintf(connection, "POST /?owner=%s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nbegun", owner); err != nil {
		t.Fatal(err)
	}
	return connection
}

// send sends a whole form, and returns the answer.
func send(t *testing.T, server *httptest.Server, owner, form string) (status int, text string) {
	t.Helper()
	response, err := http.Post(server.URL+"/?owner="+owner, "text/plain", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// A stranger opens many logins and finishes none. Others log in as before, and the stranger's wait no longer.
func TestStrangersHoldNoPlaces(t *testing.T) {
	in := &room{formsMax: 4, bytesMax: 1000, timeout: time.Hour}
	server := serve(t, in, nil)
	var unfinished []net.Conn
	for range 20 {
		unfinished = append(unfinished, begin(t, server, ""))
	}

	for range 10 {
		if status, text := send(t, server, "", "a login"); status != http.StatusOK || text != "7 <nil>" {
			t.Errorf("a login beside unfinished ones: %d %s", status, text)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(unfinished[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the first unfinished login gets %d, want 503", answer.StatusCode)
	}
}

// A tenant sends many forms. Beyond the bound for one person they are refused, and others' forms are not.
func TestFormsOfOnePerson(t *testing.T) {
	in := &room{formsMax: 10, formsOfOne: 2, bytesMax: 1000, timeout: time.Hour}
	working := make(chan struct{})
	server := serve(t, in, working)
	answers := make(chan int)
	for range 5 {
		go func() {
			status, _ := send(t, server, "tenant", "form")
			answers <- status
		}()
	}

	for range 3 {
		if status := <-answers; status != http.StatusTooManyRequests {
			t.Errorf("a form beyond the bound gets %d, want 429", status)
		}
	}
	close(working)
	for range 2 {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("a form within the bound gets %d, want 200", status)
		}
	}
	if status, _ := send(t, server, "other", "form"); status != http.StatusOK {
		t.Errorf("another person's form gets %d, want 200", status)
	}
	if in.forms != 0 || len(in.byOwner) != 0 {
		t.Errorf("at the end, the room has %d forms, of %v", in.forms, in.byOwner)
	}
}

// Forms at work keep their places: the next one is refused while the room is full of them.
func TestFormsAtWorkStay(t *testing.T) {
	in := &room{formsMax: 2, formsOfOne: 1, bytesMax: 1000, timeout: time.Hour}
	working := make(chan struct{})
	server := serve(t, in, working)
	answers := make(chan int)
	for _, owner := range []string{"a", "b", "c"} {
		go func() {
			status, _ := send(t, server, owner, "form")
			answers <- status
		}()
	}

	if status := <-answers; status != http.StatusServiceUnavailable {
		t.Errorf("the third of two forms gets %d, want 503", status)
	}
	close(working)
	for range 2 {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("a form at work gets %d, want 200", status)
		}
	}
}

func TestFormsOutOfBounds(t *testing.T) {
	server := serve(t, &room{formsMax: 1, bytesMax: 10, timeout: time.Hour}, nil)
	if status, _ := send(t, server, "", strings.Repeat("x", 11)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a form that says that it is too large gets %d, want 413", status)
	}
	chunked, err := http.Post(server.URL, "text/plain", io.MultiReader(strings.NewReader(strings.Repeat("x", 11)))) // of unknown length
	if err != nil {
		t.Fatal(err)
	}
	defer chunked.Body.Close() //nolint:errcheck // it was only read
	if chunked.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a form that turns out too large gets %d, want 413", chunked.StatusCode)
	}

	slow := serve(t, &room{formsMax: 1, bytesMax: 1000, timeout: time.Millisecond}, nil)
	answer, err := http.ReadResponse(bufio.NewReader(begin(t, slow, "")), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a form that does not arrive gets %d, want 408", answer.StatusCode)
	}
}

// The answer may take longer than the form.
func TestDeadlineEndsWithTheForm(t *testing.T) {
	working := make(chan struct{})
	in := &room{formsMax: 1, bytesMax: 1000, timeout: 200 * time.Millisecond}
	server := serve(t, in, working)
	time.AfterFunc(2*in.timeout, func() { close(working) })
	if status, text := send(t, server, "", "form"); status != http.StatusOK {
		t.Errorf("a form with a slow answer gets %d %s, want 200", status, text)
	}
}
