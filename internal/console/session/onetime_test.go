package session

import "testing"

// A one-time token begins one session, and another only if the first did not begin.
func TestOneTime(t *testing.T) {
	token := NewOneTime()
	if err := token.Use("another"); err == nil {
		t.Error("another text is the token")
	}
	if err := token.Use(token.Secret()); err != nil {
		t.Errorf("the first use: %v", err)
	}
	if err := token.Use(token.Secret()); err == nil {
		t.Error("the token can be used twice")
	}
	token.Restore()
	if err := token.Use(token.Secret()); err != nil {
		t.Errorf("a use after one that began no session: %v", err)
	}
}
