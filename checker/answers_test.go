package checker

import (
	"slices"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// call is one call of the sink, as its client records it; times in ms. Its link carries the
// request 1 ms after the invocation and the answer 1 ms before the end.
type call struct {
	from, to         int64
	proc             string
	op               history.Op
	token            int64
	key              string
	value            int64
	result           string // "" of a get; of the others: no answer came
	seen, seq        int64
	carried          func(*history.Event) // changes what the link carried
	uncarried, never bool                 // the link carried nothing; the client recorded nothing
}

// sinkStory is a run on lock "a" and resource "r": w1 is stopped before its write, w2 takes
// the lock over and writes, and w1's late write is refused.
type sinkStory struct {
	calls    []call
	ledger   []history.LedgerEntry
	value    int64
	unread   string   // why the links are not read
	blind    bool     // nobody reads them
	promises []string // of the system
}

func newSinkStory() *sinkStory {
	one := int64(1)
	return &sinkStory{
		calls: []call{
			{from: 110, to: 114, proc: "w1.1/c1", op: history.OpRaise, token: 1, result: past.ResultApplied, seen: 1, seq: 1},
			{from: 115, to: 119, proc: "w1.1/c1", op: history.OpGet, seen: 1, seq: 1},
			{from: 2110, to: 2114, proc: "w2.1/c1", op: history.OpRaise, token: 2, result: past.ResultApplied, seen: 2, seq: 2},
			{from: 2115, to: 2119, proc: "w2.1/c1", op: history.OpGet, seen: 2, seq: 2},
			{from: 2130, to: 2140, proc: "w2.1/c1", op: history.OpEffect, token: 2, key: "k2", value: 1, result: past.ResultApplied, seen: 2, seq: 3},
			{from: 130, to: 3000, proc: "w1.1/c1", op: history.OpEffect, token: 1, key: "k1", value: 1, result: past.ResultStale, seen: 2, seq: 3},
		},
		ledger: []history.LedgerEntry{
			{Seq: 1, Kind: history.LedgerRaise, Issuer: "a", Token: 1, At: tinyAt(112)},
			{Seq: 2, Kind: history.LedgerRaise, Issuer: "a", Token: 2, At: tinyAt(2112)},
			{Seq: 3, Kind: history.LedgerAccept, Issuer: "a", Token: 2, EffectKey: "k2", Value: &one, At: tinyAt(2135)},
		},
		value: 1,
	}
}

func tinyAt(ms int64) int64 { return ms*1e6 + 1e9 }

// late is w1's write after its lease.
func (s *sinkStory) late() *call { return &s.calls[5] }

// effect is w2's write.
func (s *sinkStory) effect() *call { return &s.calls[4] }

func (s *sinkStory) tell() *history.History {
	y := newTiny("w1.1", "w2.1")
	y.expect(history.Expect{})
	if !s.blind {
		y.witness(history.WitnessAnswers, "")
	}
	if s.unread != "" {
		y.witness(history.WitnessAnswers, s.unread)
	}
	y.lock(100, 109, "w1.1/c1", history.OK, 1)
	y.cas(101, 108, "w1.1/c1", history.OpAcquire, history.OK)
	y.lock(1000, 2109, "w2.1/c1", history.OK, 2)
	y.cas(2101, 2108, "w2.1/c1", history.OpAcquire, history.OK)
	for _, c := range s.calls {
		if !c.never {
			c.record(y)
		}
		if !c.uncarried && !s.blind {
			c.carry(y)
		}
	}
	y.cas(2190, 2200, "w2.1/c1", history.OpRelease, history.OK)
	h := y.end(9000)
	last := int64(len(s.ledger) + 1)
	y.op(9100, 9110, history.Harness, history.OK, history.Event{Op: history.OpRaise, Key: "r", Issuer: "a", Token: 9}, history.Event{Result: past.ResultApplied, Seen: 9, Seq: last})
	y.op(9120, 9130, history.Harness, history.OK, history.Event{Op: history.OpGet, Key: "r"}, history.Event{Value: &s.value, Seen: 9, Seq: last})
	for _, e := range append(slices.Clone(s.ledger), history.LedgerEntry{Seq: last, Kind: history.LedgerRaise, Issuer: "a", Token: 9, At: tinyAt(9105)}) {
		y.note(9140, history.Harness, history.Event{Op: history.NoteLedger, Key: "r", Details: &history.Details{Ledger: &e}})
	}
	for i := range h.Headers {
		h.Headers[i].Promises = s.promises
	}
	for i := range h.Events {
		h.Events[i].File, h.Events[i].Line = "tiny.jsonl", i+2
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(a.TS - b.TS) })
	return h
}

func (c call) request() history.Event {
	e := history.Event{Op: c.op, Key: "r"}
	if c.op != history.OpGet {
		e.Issuer, e.Token = "a", c.token
	}
	if c.op == history.OpEffect {
		e.EffectKey, e.Value = c.key, &c.value
	}
	return e
}

func (c call) answer() history.Event {
	e := history.Event{Result: c.result, Seen: c.seen, Seq: c.seq}
	if c.op == history.OpGet {
		e.Value = &c.value
	}
	return e
}

func (c call) record(y *tiny) {
	inv, end, outcome := c.request(), c.answer(), history.OK
	inv.DecidedAt = tinyAt(c.from)
	switch {
	case c.result == "" && c.op != history.OpGet:
		outcome, end = history.Unknown, history.Event{Error: "timeout"}
	case c.result == past.ResultStale || c.result == past.ResultConflict:
		outcome = history.Fail
	}
	if c.op != history.OpEffect {
		inv.DecidedAt = 0
	}
	y.op(c.from, c.to, c.proc, outcome, inv, end)
}

func (c call) carry(y *tiny) {
	e := c.request()
	e.Details = &history.Details{Asked: &history.Asked{Op: c.op, Worker: history.Worker(c.proc), Sent: tinyAt(c.from + 1)}}
	said := c.answer()
	e.Result, e.Seen, e.Seq = said.Result, said.Seen, said.Seq
	if c.op == history.OpGet {
		e.Value = said.Value
	}
	if c.carried != nil {
		c.carried(&e)
	}
	e.Op = history.NoteAnswer
	y.note(c.to-1, history.Harness, e)
}

// lateEffect makes w1's late write one that the sink took, under a token.
func (s *sinkStory) lateEffect(token int64, key string) {
	two := int64(2)
	s.ledger = append(s.ledger, history.LedgerEntry{Seq: 4, Kind: history.LedgerAccept, Issuer: "a", Token: token, EffectKey: key, Value: &two, At: tinyAt(2990)})
	s.value = 2
}

// TestAnswers: what workers say of the sink's answers, against what the links carried.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*sinkStory)
		message string
		want    []string
	}{
		"as it was": {func(*sinkStory) {}, "", nil},
		// Lies.
		"a refusal that never happened": {func(s *sinkStory) { s.late().uncarried = true },
			"w1.1/c1 says that its effect of token 1, key k1 was answered stale (seen 2, number 3), and its link carried no such answer", []string{"P10"}},
		"a refusal of another worker's": {func(s *sinkStory) { s.late().carried = func(e *history.Event) { e.Asked().Worker = "w2" } },
			"its link carried no such answer", []string{"P10", "P14"}},
		"a refusal of another token": {func(s *sinkStory) { s.late().carried = func(e *history.Event) { e.Token = 7 } },
			"its link carried no such answer", []string{"P10", "P14"}},
		"a refusal of another key": {func(s *sinkStory) { s.late().carried = func(e *history.Event) { e.EffectKey = "k9" } },
			"its link carried no such answer", []string{"P10", "P14"}},
		"a refusal that was something else": {func(s *sinkStory) {
			s.late().carried = func(e *history.Event) { e.Result, e.Error = "", "503 Service Unavailable" }
		}, "the sink said 503 Service Unavailable", []string{"P10"}},
		"a refusal before it was asked for": {func(s *sinkStory) { s.late().carried = func(e *history.Event) { e.Asked().Sent = tinyAt(129) } },
			"its link carried no such answer", []string{"P10", "P14"}},
		"an effect that was not applied": {func(s *sinkStory) { s.effect().carried = func(e *history.Event) { e.Result = past.ResultDuplicate } },
			"the sink said duplicate (seen 2, number 3)", []string{"P4"}},
		"an effect of another value": {func(s *sinkStory) { s.effect().carried = func(e *history.Event) { e.Value = ptr(int64(5)) } },
			"its link carried no such answer", []string{"P4"}},
		"a raise with another number": {func(s *sinkStory) { s.calls[2].carried = func(e *history.Event) { e.Seq = 1 } },
			"its raise of token 2 was answered applied (seen 2, number 2), and its link carried no such answer: the sink said applied (seen 2, number 1)", []string{"P4"}},
		"a read that was never made": {func(s *sinkStory) { s.calls[3].uncarried = true },
			"its get was answered value 0 (seen 2, number 2), and its link carried no such answer", []string{"P4"}},
		"a read of another value": {func(s *sinkStory) { s.calls[3].carried = func(e *history.Event) { e.Value = ptr(int64(3)) } },
			"the sink said value 3", []string{"P4"}},
		"a refusal that never happened, P10 not promised": {func(s *sinkStory) {
			s.late().uncarried, s.promises = true, []string{"P3", "P4", "P6"}
		}, "its link carried no such answer", []string{"P14"}},
		// What a program does in secret.
		"the late write under a fresh token": {func(s *sinkStory) {
			s.late().uncarried = true
			s.lateEffect(3, "fresh")
			s.calls = append(s.calls, call{from: 2980, to: 2995, proc: "w1.1/c1", op: history.OpEffect, token: 3, key: "fresh", value: 2, result: past.ResultApplied, seen: 3, seq: 4, never: true})
		}, "the link of w1 carried the effect of token 3, key fresh to r, answered applied", []string{"P4", "P10", "P14"}},
		"the late write under a fresh token, past the link": {func(s *sinkStory) {
			s.late().uncarried = true
			s.lateEffect(3, "fresh")
		}, "entry 4 of the ledger of r (accept of token 3, key fresh) was asked for on no link: something reaches the sink past the links", []string{"P4", "P10", "P14"}},
		"the late write under a fresh token, recorded": {func(s *sinkStory) {
			s.lateEffect(3, "fresh")
			s.calls = append(s.calls, call{from: 3010, to: 3020, proc: "w1.1/c1", op: history.OpEffect, token: 3, key: "fresh", value: 2, result: past.ResultApplied, seen: 3, seq: 4})
			s.ledger[3].At = tinyAt(3015)
		}, "effect by w1.1/c1 shows token 3 of a, which was never granted", []string{"P6"}},
		"the same, P6 not promised": {func(s *sinkStory) {
			s.lateEffect(3, "fresh")
			s.calls = append(s.calls, call{from: 3010, to: 3020, proc: "w1.1/c1", op: history.OpEffect, token: 3, key: "fresh", value: 2, result: past.ResultApplied, seen: 3, seq: 4})
			s.ledger[3].At, s.promises = tinyAt(3015), []string{"P1", "P3", "P4", "P10"}
		}, "effect by w1.1/c1 shows token 3 of a, which no lock call had handed to it", []string{"P3"}},
		"a refusal of a token of nobody's, P6 not promised": {func(s *sinkStory) {
			s.calls = append(s.calls, call{from: 3010, to: 3020, proc: "w2.1/c1", op: history.OpEffect, token: 1, key: "old", value: 2, result: past.ResultStale, seen: 2, seq: 3})
			s.promises = []string{"P1", "P3", "P4", "P10"}
		}, "effect by w2.1/c1 shows token 1 of a, which no lock call had handed to it", []string{"P3"}},
		"a secret refusal": {func(s *sinkStory) {
			s.calls = append(s.calls, call{from: 2980, to: 2990, proc: "w1.1/c1", op: history.OpRaise, token: 1, result: past.ResultStale, seen: 2, seq: 3, carried: func(e *history.Event) { e.Token = 0 }, never: true})
		}, "which no operation of it recorded", []string{"P14"}},
		"a secret read": {func(s *sinkStory) {
			s.calls = append(s.calls, call{from: 2980, to: 2990, proc: "w1.1/c1", op: history.OpGet, value: 1, seen: 2, seq: 3, never: true})
		}, "the link of w1 carried the get to r, answered value 1 (seen 2, number 3), which no operation of it recorded", []string{"P14"}},
		"an unread link": {func(s *sinkStory) { s.unread = "w1->sink: its bytes are not HTTP/1" },
			"what was asked of the sink cannot be compared with what it answered: w1->sink", []string{"P14"}},
		// Legal: they only just may.
		"nobody reads the links": {func(s *sinkStory) { s.blind = true }, "", nil},
		"an answer that is lost": {func(s *sinkStory) {
			s.effect().result = ""
			s.effect().carried = func(e *history.Event) { e.Result, e.Seen, e.Seq = past.ResultApplied, 2, 3 }
		}, "", nil},
		"a copy after a lost answer": {func(s *sinkStory) {
			s.effect().result = past.ResultDuplicate
			first := *s.effect()
			first.from, first.to, first.result, first.never = 2131, 2136, past.ResultApplied, true
			s.calls = append(s.calls, first)
		}, "", nil},
		"a copy that comes when another was answered": {func(s *sinkStory) {
			again := *s.effect()
			again.from, again.to, again.result, again.never = 4000, 4010, past.ResultDuplicate, true
			s.calls = append(s.calls, again)
		}, "", nil},
		"a request without an answer": {func(s *sinkStory) {
			again := *s.effect()
			again.never, again.carried = true, func(e *history.Event) { e.Result, e.Error = "", "no answer" }
			s.calls = append(s.calls, again)
		}, "", nil},
		"a read that is answered twice": {func(s *sinkStory) {
			again := s.calls[3]
			again.from, again.to, again.never = 2117, 3500, true
			s.calls = append(s.calls, again)
		}, "", nil},
		"an end that leaves the number out": {func(s *sinkStory) {
			s.late().carried = func(e *history.Event) { e.Seq = 3 }
			s.late().seq = 0
		}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSinkStory()
			c.change(s)
			tinyCheck(t, s.tell(), c.message, c.want...)
		})
	}
}

// TestDecidedAt: when the sink decided, by its own clock, against the calls.
func TestDecidedAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*sinkStory)
		message string
		want    []string
	}{
		"not dated": {func(s *sinkStory) {
			for i := range s.ledger {
				s.ledger[i].At = 0
			}
		}, "", nil},
		"decided as it was asked for":   {func(s *sinkStory) { s.ledger[2].At = tinyAt(2130) }, "", nil},
		"decided as it was answered":    {func(s *sinkStory) { s.ledger[2].At = tinyAt(2140) }, "", nil},
		"decided before it was asked":   {func(s *sinkStory) { s.ledger[2].At = tinyAt(2129) }, "the sink decided entry 3 (accept of token 2, key k2) 1.0 ms before anybody asked for it", []string{"P4"}},
		"decided after it was answered": {func(s *sinkStory) { s.ledger[2].At = tinyAt(2141) }, "effect of token 2, key k2 was answered applied 1.0 ms before the sink decided it (entry 3)", []string{"P4"}},
		"a raise after it was answered": {func(s *sinkStory) { s.ledger[1].At = tinyAt(2115) }, "raise of token 2 was answered applied 1.0 ms before the sink decided it (entry 2)", []string{"P4"}},
		"decided before the entry before": {func(s *sinkStory) {
			raise := &s.calls[2] // unknown to its client, and decided late
			raise.result = ""
			raise.carried = func(e *history.Event) { e.Result, e.Seen, e.Seq = past.ResultApplied, 2, 2 }
			s.ledger[1].At = tinyAt(2137)
		}, "entry 3 of the ledger of r was decided 2.0 ms before entry 2, which it follows", []string{"P4"}},
		"an unknown that was decided late": {func(s *sinkStory) {
			s.effect().result = ""
			s.effect().carried = func(e *history.Event) { e.Result, e.Seen, e.Seq = past.ResultApplied, 2, 3 }
			s.ledger[2].At = tinyAt(2900)
		}, "", nil},
		"refused by what came later": {func(s *sinkStory) {
			s.late().to = 2113
			s.ledger[1].At = tinyAt(2114)
			s.late().seq = 2
		}, "effect with token 1 was refused as stale because of token 2, which the sink took only 1.0 ms later", []string{"P10"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSinkStory()
			c.change(s)
			tinyCheck(t, s.tell(), c.message, c.want...)
		})
	}
}
