package checker

import (
	"context"
	"slices"
	"sort"
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

// tiny is a history written by hand, for the rules that a whole simulated run
// would hide: w1 takes lock "a" and is killed, w2 waits and takes it over. Times are
// in ms.
type tiny struct {
	h   *history.History
	ids map[string]int64
	row history.Version // of lock "a"
}

const tinyTTL = 1000

func newTiny(lives ...string) *tiny {
	y := &tiny{h: &history.History{}, ids: map[string]int64{}, row: history.Version{Absent: true}}
	for _, life := range append([]string{history.Harness}, lives...) {
		y.h.Headers = append(y.h.Headers, history.Header{
			Format: history.Format, Version: history.FormatVersion, Run: "tiny", Proc: life, BootID: "b", WallTime: "2025-01-02T03:04:05Z", TS: 1e9, DriftBound: 0.01, MarginBaseMS: 10,
		})
	}
	return y
}

func (y *tiny) event(at int64, e history.Event) *history.Event {
	e.TS = at*1e6 + 1e9
	y.h.Events = append(y.h.Events, e)
	return &y.h.Events[len(y.h.Events)-1]
}

func (y *tiny) note(at int64, proc string, e history.Event) {
	e.Proc, e.Type = proc, history.Note
	y.event(at, e)
}

// expect notes what is expected. A tiny run exercises one rule: nothing else is asked of it.
func (y *tiny) expect(x history.Expect) {
	if x.Exempt == nil {
		x.Exempt = everything()
	}
	y.note(0, history.Harness, history.Event{Op: history.NoteExpect, Details: &history.Details{Expect: &x}})
}

// everything is exempt.
func everything() map[string]string {
	all := map[string]string{}
	for _, id := range history.Promisable {
		all[id] = "a tiny run"
	}
	return all
}

// fault is an injection with its proof just before it is healed.
func (y *tiny) fault(id, name string, from, to int64, targets ...string) {
	for _, f := range []struct {
		at     int64
		action string
	}{{from, history.ActionInject}, {to - 1, history.ActionEvidence}, {to, history.ActionHeal}} {
		y.note(f.at, history.Harness, history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &history.Fault{ID: id, Name: name, Action: f.action, Targets: targets, Proven: f.action == history.ActionEvidence}}})
	}
}

// delay is a fault that makes messages late by so many ms, each way.
func (y *tiny) delay(id, name string, from, to, ms int64, targets ...string) {
	n := len(y.h.Events)
	y.fault(id, name, from, to, targets...)
	y.h.Events[n].Fault().DelayMS = ms
}

// op is an operation with an outcome ("": it has no end).
func (y *tiny) op(from, to int64, proc string, outcome history.Type, inv, end history.Event) {
	life := history.Life(proc)
	y.ids[life]++
	inv.Proc, inv.ID, inv.Type = proc, y.ids[life], history.Invoke
	y.event(from, inv)
	if outcome == "" {
		return
	}
	end.Proc, end.ID, end.Type, end.Op, end.Key = proc, inv.ID, outcome, inv.Op, inv.Key
	y.event(to, end)
}

// lock is a client's call.
func (y *tiny) lock(from, to int64, proc string, outcome history.Type, token int64) {
	y.op(from, to, proc, outcome, history.Event{Op: history.OpLock, Key: "a"}, history.Event{Token: token})
}

// cas changes the row, and records it with the outcome.
func (y *tiny) cas(from, to int64, proc string, op history.Op, outcome history.Type) {
	old, set := y.row, y.row
	life := strings.Split(proc, "/")[0]
	id := history.Event{Proc: proc, ID: y.ids[life] + 1}
	switch op {
	case history.OpRenew:
		set.Beat++
	case history.OpRelease:
		set.Beat++
		set.Holder, set.Attempt = "", "r-"+proc+string(rune('a'+id.ID))
	default:
		set = history.Version{Fence: old.Fence + 1, Attempt: "g-" + proc + string(rune('a'+id.ID)), Holder: proc, TTLMS: tinyTTL}
		if op == history.OpSeal {
			set.Holder = ""
		}
	}
	takeover := op == history.OpAcquire && old.Holder != ""
	y.op(from, to, proc, outcome, history.Event{Op: op, Key: "a", From: &old, To: &set, Takeover: takeover}, history.Event{Sends: []int64{from*1e6 + 1e9}})
	y.row = set
}

// end seals the lock and ends all lives but the crashed. Lives that did nothing never were.
func (y *tiny) end(at int64) *history.History {
	y.h.Headers = slices.DeleteFunc(y.h.Headers, func(h history.Header) bool { return h.Proc != history.Harness && y.ids[h.Proc] == 0 })
	crashed := map[string]bool{}
	for _, e := range y.h.Events {
		if e.Op == history.NoteCrash {
			crashed[e.Proc] = true
		}
	}
	for _, head := range y.h.Headers[1:] {
		if !crashed[head.Proc] {
			y.note(at, head.Proc, history.Event{Op: history.NoteExit})
		}
	}
	y.cas(at+10, at+20, history.Harness, history.OpSeal, history.OK)
	y.op(at+30, at+40, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: "a"}, history.Event{Row: &y.row})
	sort.SliceStable(y.h.Events, func(i, j int) bool { return y.h.Events[i].TS < y.h.Events[j].TS })
	for i := range y.h.Events {
		y.h.Events[i].File, y.h.Events[i].Line = "tiny.jsonl", i+2
	}
	return y.h
}

// tinyCheck checks and demands that exactly the properties of want fail (P14: is
// invalid), with a message that says so.
func tinyCheck(t *testing.T, h *history.History, message string, want ...string) *Result {
	t.Helper()
	r := Check(context.Background(), h, Options{})
	var bad []string
	said := message == ""
	for _, p := range r.Properties {
		if p.Status == StatusFail || p.Status == StatusInvalid || p.Status == StatusUnknown {
			bad = append(bad, p.ID)
			for _, v := range p.Violations {
				said = said || strings.Contains(v.Message, message)
			}
		}
	}
	if !slices.Equal(bad, want) {
		t.Errorf("found in %v, want %v: %s", bad, want, r.Summary)
	}
	if !said {
		t.Errorf("no violation says %q: %s", message, r.Summary)
	}
	checkExplained(t, r)
	return r
}
