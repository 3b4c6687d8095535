//go:build integration

package sinks

import (
	"testing"
	"time"

	"fencepost/core/sink"
)

func init() { tested = append(tested, Postgres) }

// A rival's rows are locked for everybody else, who waits, and are new versions of the same
// afterwards: the sink's transactions do not fail of it.
func TestRivalOfPostgres(t *testing.T) {
	t.Parallel()
	k := found(t, Postgres)
	s, c := started(t, k, Options{})
	if _, err := c.Raise(t.Context(), "r", "l", 1); err != nil {
		t.Fatal(err)
	}
	r, err := k.Rival(t.Context(), Place{Addr: s.Addr(), Secret: s.Secret})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	check := func(want bool) {
		t.Helper()
		if held, err := r.Held(t.Context()); err != nil || held != want {
			t.Errorf("held %t, %v; want %t", held, err, want)
		}
	}
	check(false)
	if n, err := r.Hold(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d rows, %v", n, err)
	}
	check(true)
	done := make(chan error, 1)
	go func() {
		_, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "k", Value: 7})
		done <- err
	}()
	for {
		n, err := r.Waiting(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := r.Free(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	check(false)
	if st, err := c.Read(t.Context(), "r", "k"); err != nil || st.Value != 7 || st.Seq != 2 {
		t.Errorf("%+v, %v", st, err)
	}
}
