package broken

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// Every variant of the list that needs a worker of its own has one, and every
// worker's variant is in the list.
func TestListAndWorkersAgree(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, s := range system.Broken() {
		if s.Variant != "" {
			listed = append(listed, s.Variant)
		}
	}
	slices.Sort(listed)
	if have := Names(); !slices.Equal(listed, have) {
		t.Errorf("listed: %v\nmade: %v", listed, have)
	}
	for _, name := range listed {
		if _, err := Worker(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := Worker("sound"); err == nil || !strings.Contains(err.Error(), "hilo-tokens") {
		t.Errorf("an unknown variant: %v", err)
	}
}

// fakeLocks is one row; lost says how many answers to drop after executing, and
// dropped how many requests to drop before.
type fakeLocks struct {
	row           *store.Version
	lost, dropped int
	sent          []store.Version
}

func (f *fakeLocks) Read(context.Context, string, bool) (*store.Version, error) {
	if f.row == nil {
		return nil, nil
	}
	v := *f.row
	return &v, nil
}

func (f *fakeLocks) CAS(_ context.Context, _ string, from *store.Version, to store.Version, _ int) (store.CASResult, error) {
	unknown := &store.Error{Outcome: store.Unknown, Cause: context.DeadlineExceeded}
	if f.dropped > 0 {
		f.dropped--
		return store.CASResult{}, unknown
	}
	f.sent = append(f.sent, to)
	res := store.CASResult{Applied: store.Same(f.row, from)}
	if res.Applied {
		f.row = &to
	} else if f.row != nil {
		v := *f.row
		res.Row = &v
	}
	if f.lost > 0 {
		f.lost--
		return store.CASResult{}, unknown
	}
	return res, nil
}

const second = time.Second

var (
	mine   = store.Version{Fence: 4, Attempt: "a", Holder: "me", TTL: 6 * second}
	freed  = store.Version{Fence: 4, Beat: 1, Attempt: "r", TTL: 6 * second}
	theirs = store.Version{Fence: 5, Attempt: "b", Holder: "other", TTL: 6 * second}
)

func TestHeartbeatDiesOnce(t *testing.T) {
	t.Parallel()
	f := &fakeLocks{row: &mine, dropped: 1}
	l := heartbeatDies().Locks(workload.Config{}, nil, f)
	beat := mine
	beat.Beat++
	if _, err := l.CAS(t.Context(), "l", &mine, beat, 0); store.OutcomeOf(err) != store.Unknown {
		t.Fatalf("the first renewal: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.CAS(ctx, "l", &mine, beat, 1); !errors.Is(err, errDead) || len(f.sent) != 0 {
		t.Errorf("the second renewal: %v, sent %v", err, f.sent)
	}
	if res, err := l.CAS(ctx, "l", &mine, freed, 0); err != nil || !res.Applied {
		t.Errorf("the release: %+v, %v", res, err)
	}
}

func TestBlindToBeats(t *testing.T) {
	t.Parallel()
	row := mine
	f := &fakeLocks{row: &row}
	l := takeoverIgnoresBeat(workload.Config{}, nil, f)
	read := func() *store.Version {
		v, err := l.Read(t.Context(), "l", false)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	read()
	row.Beat = 3
	if v := read(); v.Beat != 0 {
		t.Errorf("a renewal is seen: %s", v)
	}
	f.row = &theirs
	if v := read(); !store.Same(v, &theirs) {
		t.Errorf("another's lease is not seen: %s", v)
	}
}

// memoryRecorder keeps events.
type memoryRecorder struct {
	id     int64
	events []history.Event
}

func (m *memoryRecorder) Now() int64   { return 1 }
func (m *memoryRecorder) NewID() int64 { m.id++; return m.id }
func (m *memoryRecorder) Record(e history.Event) int64 {
	m.events = append(m.events, e)
	return int64(len(m.events))
}

func TestRecorders(t *testing.T) {
	t.Parallel()
	inv := history.Event{ID: 50, Type: history.Invoke, Op: history.OpAcquire}
	end := history.Event{ID: 50, Type: history.Unknown, Op: history.OpAcquire, ServerTimeout: true}
	raise := history.Event{ID: 51, Type: history.Invoke, Op: history.OpRaise}
	for name, c := range map[string]struct {
		make func(workload.Config, workload.Recorder) workload.Recorder
		want []history.Event
	}{
		"drops":        {recorderDrops, []history.Event{raise}},
		"late calls":   {lateCalls, []history.Event{raise, inv, end}},
		"unknown fail": {unknownAsFail, []history.Event{inv, raise, {ID: 50, Type: history.Fail, Op: history.OpAcquire}}},
	} {
		m := &memoryRecorder{}
		r := c.make(workload.Config{}, m)
		for _, e := range []history.Event{inv, raise, end} {
			r.Record(e)
		}
		if len(m.events) != len(c.want) {
			t.Errorf("%s: %d events, want %d", name, len(m.events), len(c.want))
			continue
		}
		for i, e := range m.events {
			if e.ID != c.want[i].ID || e.Type != c.want[i].Type || e.ServerTimeout != c.want[i].ServerTimeout {
				t.Errorf("%s: event %d is %+v, want %+v", name, i, e, c.want[i])
			}
		}
	}
}
