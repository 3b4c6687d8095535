package boltsink

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *Sink {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "sink.db"))
	t.Run("all", func(t *testing.T) { sinktest.Run(t, "bolt", func(*testing.T) sink.Sink { return s }) })
}

// What was acknowledged is there when the file is opened again.
func TestReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sink.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accept(t.Context(), "r", "l", 3, sink.Effect{Key: "k", Intent: "i", Value: 7, Payload: []byte("p")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Raise(t.Context(), "r", "l", 5); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Raise(t.Context(), "r", "l", 9); store.OutcomeOf(err) != store.Fail {
		t.Errorf("after Close: %v", err)
	}
	s = open(t, path)
	st, err := s.Read(t.Context(), "r", "k")
	if err != nil || st.Value != 7 || string(st.Payload) != "p" || st.Seen != 5 || st.Seq != 2 || st.Issuer != "l" || st.Applied["k"] != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	if a, err := s.Accept(t.Context(), "r", "l", 4, sink.Effect{Key: "late"}); err != nil || a.Result != sink.Stale {
		t.Errorf("%+v, %v", a, err)
	}
	if all, err := s.Resources(); err != nil || strings.Join(all, " ") != "r" {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "boltsink: ") {
		t.Errorf("a directory: %v", err)
	}
}

// Each decision is dated by the host's clock, between what the caller reads of it before and
// after, and stays so when the file is opened again.
func TestDecidedAt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sink.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	times := []int64{monotonic()}
	for i, do := range []func() error{
		func() error { _, err := s.Raise(t.Context(), "r", "l", 1); return err },
		func() error { _, err := s.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "k"}); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(i, err)
		}
		times = append(times, monotonic())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := open(t, path).Ledger(t.Context(), "r")
	if err != nil || len(l) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	for i, e := range l {
		if e.At < times[i] || e.At > times[i+1] {
			t.Errorf("entry %d was decided at %d, not between %d and %d", e.Seq, e.At, times[i], times[i+1])
		}
	}
}

// A transaction that fails leaves nothing behind, and no resource is made by a refusal.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "sink.db"))
	boom := errors.New("boom")
	err := s.Update(t.Context(), "r", func(r *Rows) error {
		if err := r.Bind("l"); err != nil {
			return err
		}
		if err := r.Accept(3, sink.Effect{Key: "k", Value: 7}); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{
		func() error { _, err := s.Raise(t.Context(), "r", "", 1); return err }(),
		func() error { _, err := s.Raise(t.Context(), "r", "l", 0); return err }(),
		func() error { _, err := s.Accept(t.Context(), "r", "l", 1, sink.Effect{}); return err }(),
		func() error { _, err := s.Raise(ctx, "r", "l", 1); return err }(),
	} {
		if store.OutcomeOf(err) != store.Fail {
			t.Errorf("%v: %s", err, store.OutcomeOf(err))
		}
	}
	if all, err := s.Resources(); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// What a tool writes past the rules is in the ledger, and Remove removes it all.
func TestUpdateAndRemove(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "sink.db"))
	if _, err := s.Raise(t.Context(), "r", "l", 5); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), "r", func(r *Rows) error { return r.Accept(2, sink.Effect{Key: "late", Value: 1}) }); err != nil {
		t.Fatal(err)
	}
	l, err := s.Ledger(t.Context(), "r")
	if err != nil || len(l) != 2 || l[1].Token != 2 || l[1].Kind != sink.KindAccept {
		t.Errorf("%+v, %v", l, err)
	}
	for range 2 {
		if err := s.Remove("r"); err != nil {
			t.Error(err)
		}
	}
	if st, err := s.Read(t.Context(), "r"); err != nil || st.Seq != 0 || st.Issuer != "" {
		t.Errorf("%+v, %v", st, err)
	}
}
