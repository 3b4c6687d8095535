package owncheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
)

const dir = "/runs/x"

// at is an instant of the run, n milliseconds after its begin.
func at(n float64) int64 { return int64(1e12 + n*1e6) }

// file reads lines as a file of a life's.
func file(t *testing.T, life string, lines ...string) *history.History {
	t.Helper()
	head := fmt.Sprintf(`{"format":"fencepost-history","version":1,"run":"x","proc":%q,"pid":1,"host":"h","boot_id":"b","wall_time":"2026-01-02T03:04:05Z","ts":%d,"drift_bound":0.01,"margin_base_ms":100,"promises":["P4","P7","P8","P10"]}`, life, at(0))
	h, err := history.Read(strings.NewReader(strings.Join(append([]string{head}, lines...), "\n")+"\n"), dir+"/history/"+life+".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const absent = `{"absent":true,"fence":0,"beat":0,"attempt":"","holder":"","ttl_ms":0}`

// cycle is a client's cycle, from its first id on and from an instant on; release is false for one
// that is killed in it.
func cycle(proc string, id int, from float64, release bool) []string {
	held := fmt.Sprintf(`{"fence":%d,"beat":0,"attempt":"a%s%d","holder":%q,"ttl_ms":6000}`, at(from)/1000, proc, id, proc)
	line := func(ms float64, id int, rest string) string {
		n := ""
		if id > 0 {
			n = fmt.Sprintf(`"id":%d,`, id)
		}
		return fmt.Sprintf(`{"ts":%d,"proc":%q,%s%s}`, at(from+ms), proc, n, rest)
	}
	token := at(from+3) / 1000
	out := []string{
		line(0, id, `"type":"invoke","op":"lock","key":"l"`),
		line(1, id+1, `"type":"invoke","op":"acquire","key":"l","from":`+absent+`,"to":`+held),
		line(2, id+1, fmt.Sprintf(`"type":"ok","op":"acquire","key":"l","sends":[%d]`, at(from+1.2))),
		line(3, id, fmt.Sprintf(`"type":"ok","op":"lock","key":"l","token":%d`, token)),
		line(4, id+2, `"type":"invoke","op":"get","key":"r"`),
		line(5, id+2, `"type":"ok","op":"get","key":"r","value":0,"seen":0,"seq":0`),
		line(6, 0, fmt.Sprintf(`"type":"note","op":"start","key":"l","token":%d,"decided_at":%d`, token, at(from+5.5))),
	}
	if !release {
		return out
	}
	return append(out,
		line(4600, id+3, fmt.Sprintf(`"type":"invoke","op":"effect","key":"r","issuer":"l","token":%d,"effect_key":"k%d","value":1,"decided_at":%d`, token, id, at(from+4600))),
		line(4601, id+3, `"type":"ok","op":"effect","key":"r","result":"applied","seen":1,"seq":2`),
		line(4602, 0, fmt.Sprintf(`"type":"note","op":"finish","key":"l","token":%d`, token)),
		line(4603, id+4, `"type":"invoke","op":"release","key":"l","from":`+held+`,"to":`+absent),
		line(4604, id+4, fmt.Sprintf(`"type":"ok","op":"release","key":"l","sends":[%d]`, at(from+4603.2))),
	)
}

// tried is a run of a sound program: a cycle, one that was cut short by the kill, and one of the
// second life.
func tried(t *testing.T) *Run {
	t.Helper()
	first := append(cycle("w1.1/c1", 1, 10, true), cycle("w1.1/c1", 6, 5000, false)...)
	second := append(cycle("w1.2/c1", 1, 12000, true), fmt.Sprintf(`{"ts":%d,"proc":"w1.2","type":"note","op":"exit"}`, at(17000)))
	note := func(ms float64, rest string) string {
		return fmt.Sprintf(`{"ts":%d,"proc":"harness","type":"note",%s}`, at(ms), rest)
	}
	op := func(ms float64, id int, rest string) string {
		return fmt.Sprintf(`{"ts":%d,"proc":"harness","id":%d,%s}`, at(ms), id, rest)
	}
	fault := func(action, more string) string {
		return `"op":"fault","fault":{"id":"f1","name":"kill-worker","action":"` + action + `","targets":["w1"]` + more + `}`
	}
	seal := `{"fence":9,"beat":0,"attempt":"s","holder":"","ttl_ms":6000}`
	harness := file(t, "harness",
		note(15, fmt.Sprintf(`"op":"answer","key":"r","value":0,"asked":{"worker":"w1","op":"get","sent":%d}`, at(14.2))),
		note(4610.1, fmt.Sprintf(`"op":"hit","key":"l","point":"effect-sent","hit":{"proc":"w1.1/c1","id":4,"go":%d,"sent":%d}`, at(4610.4), at(4610.6))),
		note(5010, fault("inject", "")), note(5400, fault("evidence", `,"proven":true,"text":"gone"`)),
		fmt.Sprintf(`{"ts":%d,"proc":"w1.1","type":"note","op":"crash","error":"SIGKILL by f1"}`, at(5011)),
		note(5012, `"op":"life","life":{"kind":"program","name":"w1.1","pid":7,"asked":"SIGKILL","by":"f1","signal":"SIGKILL"}`),
		note(6000, fault("heal", "")),
		note(17100, `"op":"life","life":{"kind":"program","name":"w1.2","pid":8,"asked":"SIGTERM","by":"runner","code":0,"took_ms":100,"bound_ms":25000}`),
		op(18000, 1, `"type":"invoke","op":"seal","key":"l","from":`+absent+`,"to":`+seal), op(18001, 1, fmt.Sprintf(`"type":"ok","op":"seal","key":"l","sends":[%d]`, at(18000.5))),
		op(18002, 2, `"type":"invoke","op":"read","key":"l"`), op(18003, 2, `"type":"ok","op":"read","key":"l","row":`+seal),
		note(18100, `"op":"life","life":{"kind":"task","name":"seal","pid":9,"code":0}`),
	)
	h := &history.History{}
	for _, f := range []*history.History{harness, file(t, "w1.1", first...), file(t, "w1.2", second...)} {
		h.Headers, h.Events = append(h.Headers, f.Headers...), append(h.Events, f.Events...)
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(a.TS - b.TS) })
	r := &Run{
		Dir: dir, History: h, TTL: 6 * time.Second, Clock: &Clock{Seen: 9},
		Result: &checker.Result{Properties: []checker.Property{
			{ID: "P1", Status: checker.StatusNA}, {ID: "P4", Status: checker.StatusPass, Checked: 3, Title: "no effect twice"},
			{ID: "P7", Status: checker.StatusPass, Checked: 2}, {ID: "P14", Status: checker.StatusPass, Checked: 1}, {ID: "P18", Status: checker.StatusPass, Checked: 1},
		}},
		Trial: own.Trial{
			Offer: &own.Offer{Points: []control.Point{control.Holding, control.AcquireSent, control.RenewSent, control.EffectSent}, Promises: []string{"P4", "P7"}},
			Ready: 300 * time.Millisecond,
			Stands: []own.Stand{
				{Point: control.Holding, Proc: "w1.1/c1", Key: "l", At: at(17), Went: at(1017), Hold: 3500 * time.Millisecond},
				{Point: control.EffectSent, Proc: "w1.1/c1", Key: "l", At: at(4610.1), Went: at(4610.4)},
			},
			Sent: []own.Sent{{Proc: "w1.1/c1", ID: 2, At: at(11.5)}, {Proc: "w1.1/c1", ID: 7, At: at(5001.5)}, {Proc: "w1.2/c1", ID: 2, At: at(12001.5)}},
		},
	}
	return r
}

// event is the one of a life that was recorded n ms after the begin.
func (r *Run) event(t *testing.T, life string, ms float64) *history.Event {
	t.Helper()
	for i := range r.History.Events {
		if e := &r.History.Events[i]; e.TS == at(ms) && history.Life(e.Proc) == life {
			return e
		}
	}
	t.Fatalf("%s recorded nothing at %g ms", life, ms)
	return nil
}

func texts(all []Finding) string {
	var b strings.Builder
	Print(&b, all)
	return b.String()
}

// TestSound: of a program that keeps the contract nothing is wrong, and each check says so.
func TestSound(t *testing.T) {
	t.Parallel()
	all := tried(t).Findings(t.Context())
	if Worst(all) != OK {
		t.Errorf("%s", texts(all))
	}
	for _, want := range []string{"setup", "ready", "history", "clock", "store", "sink", "holding", "effect-sent", "takeover", "stop", "seal", "run", "P4", "P7"} {
		if !slices.ContainsFunc(all, func(f Finding) bool { return f.Check == want && f.Status == OK && f.Text != "" }) {
			t.Errorf("%s is not ok:\n%s", want, texts(all))
		}
	}
	for _, want := range []string{
		"ready          ok          300.0 ms after its start\n", "w1.1/c1 was killed in its lease; w1.2/c1 was granted the lock 6.0 s after its start",
		"w1.1/c1 waited for 1.0 s and then worked for 3.6 s, as it was told", "3 of 3 requests were seen on the links",
		"w1.2 ended with 0 100.0 ms after SIGTERM, with an exit note", "3 checked: no effect twice",
	} {
		if !strings.Contains(texts(all), want) {
			t.Errorf("%q is not in\n%s", want, texts(all))
		}
	}
}

// TestEachCheckTurns: each mistake turns its own check, and what is allowed does not.
func TestEachCheckTurns(t *testing.T) {
	t.Parallel()
	invalid := func(key, message string, ops ...history.Op) func(*testing.T, *Run) {
		return func(_ *testing.T, r *Run) {
			v := checker.Violation{Key: key, Message: message}
			for i, op := range ops {
				v.Events = append(v.Events, checker.EventRef{File: "history/harness.jsonl", Line: 4 + i, Event: history.Event{Op: op}})
			}
			r.Result.Properties[3] = checker.Property{ID: "P14", Status: checker.StatusInvalid, Count: 1, Violations: []checker.Violation{v}}
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *Run)
		check  string
		status Status
		want   string
	}{
		"no points":                     {func(_ *testing.T, r *Run) { r.Trial.Offer.Points, r.Trial.Stands = nil, nil }, "points", Hint, "it offers none"},
		"never ready":                   {func(_ *testing.T, r *Run) { r.Trial.Ready = 0 }, "ready", Wrong, "no life was ready"},
		"dies":                          {func(t *testing.T, r *Run) { r.event(t, "harness", 5012).Life().Asked = "" }, "ready", Wrong, "w1.1 ended by itself"},
		"gap in ids":                    {func(t *testing.T, r *Run) { r.event(t, "w1.2", 12004).ID, r.event(t, "w1.2", 12005).ID = 9, 9 }, "history", Wrong, "the record of w1.2 has lost events"},
		"late invoke, by its own times": {func(t *testing.T, r *Run) { r.event(t, "w1.1", 12).Sends[0] = at(10.5) }, "history", Wrong, "has a send outside of its recorded interval"},
		"clock ahead": {func(t *testing.T, r *Run) {
			r.Clock.line(r.event(t, "w1.1", 11), at(11), at(5))
			r.Clock.line(r.event(t, "w1.1", 12), at(11), at(5))
		}, "clock", Wrong, "history/w1.1.jsonl:3: ts 1000011000000 is 6.0 ms after the harness's clock when it read the line (and 1 more)"},
		"clock behind":              {func(t *testing.T, r *Run) { r.Clock.line(r.event(t, "w1.1", 11), at(2011), at(2020)) }, "clock", Wrong, "is 2.0 s before the line was there"},
		"clock a little behind":     {func(t *testing.T, r *Run) { r.Clock.line(r.event(t, "w1.1", 11), at(900), at(920)) }, "clock", OK, "10 lines"},
		"nothing read":              {func(_ *testing.T, r *Run) { r.Clock.Seen = 0 }, "clock", Unchecked, ""},
		"late invoke, by the links": {func(_ *testing.T, r *Run) { r.Trial.Sent[0].At = at(10.7) }, "store", Wrong, "w1.1.jsonl:3: acquire of w1.1/c1 came to a link 0.3 ms before its invoke was recorded"},
		"late sends":                {func(_ *testing.T, r *Run) { r.Trial.Sent[0].At = at(11.1) }, "store", Wrong, "had come to a link 0.1 ms before the first of its sends"},
		"never sent":                {func(_ *testing.T, r *Run) { r.Trial.Sent[0].At, r.Trial.Sent[2].At = 0, 0 }, "store", Wrong, "its links carried no request with its lock and its attempt (and 1 more)"},
		"refused and not seen": {func(t *testing.T, r *Run) {
			r.Trial.Sent[0].At = 0
			r.event(t, "w1.1", 12).Type = history.Fail
		}, "store", OK, "2 of 3 requests"},
		"no point before requests": {func(_ *testing.T, r *Run) { r.Trial.Sent = nil }, "store", Unchecked, ""},
		"unrecorded get":           {invalid("r", "the link of w1 carried the get to r", history.NoteAnswer), "sink", Wrong, "history/harness.jsonl:4: the link of w1 carried"},
		"past the links":           {invalid("r", "entry 3 of the ledger", history.NoteLedger), "sink", Wrong, "entry 3"},
		"links not read":           {invalid("", "cannot be compared", history.NoteWitness), "sink", Wrong, "cannot be compared"},
		"sink not asked":           {func(t *testing.T, r *Run) { r.event(t, "harness", 15).Op = history.NotePoint }, "sink", Unchecked, ""},
		"nobody comes":             {func(_ *testing.T, r *Run) { r.Trial.Stands[1].Proc = "" }, "effect-sent", Wrong, "no client came"},
		"no renewals":              {func(_ *testing.T, r *Run) { r.Trial.Stands[1] = own.Stand{Point: control.RenewSent} }, "renew-sent", Wrong, "no client came"},
		"no renewals, no long work": {func(_ *testing.T, r *Run) {
			r.Trial.Offer.Points = []control.Point{control.RenewSent}
			r.Trial.Stands = []own.Stand{{Point: control.RenewSent}}
		}, "renew-sent", Unchecked, "without the point holding"},
		"sent, then asked": {func(t *testing.T, r *Run) { r.event(t, "harness", 4610.1).Hit().Sent = at(4609.1) }, "effect-sent", Wrong, "w1.1.jsonl:9: w1.1/c1 asked 1.0 ms after its request had left"},
		"does not wait":    {func(t *testing.T, r *Run) { r.event(t, "harness", 4610.1).Hit().Sent = at(4610.3) }, "effect-sent", Wrong, "did not wait: its request left 0.1 ms before the answer"},
		"never sends":      {func(t *testing.T, r *Run) { r.event(t, "harness", 4610.1).Hit().Sent = 0 }, "effect-sent", Wrong, "says that its effect was answered"},
		"gives up": {func(t *testing.T, r *Run) {
			r.event(t, "harness", 4610.1).Hit().Sent = 0
			e := r.event(t, "w1.1", 4611)
			e.Type, e.Result = history.Unknown, ""
		}, "effect-sent", Unchecked, "sent nothing then"},
		"no invoke":               {func(t *testing.T, r *Run) { r.event(t, "harness", 4610.1).Hit().ID = 0 }, "effect-sent", Wrong, "had recorded no operation"},
		"no word of the links":    {func(t *testing.T, r *Run) { r.event(t, "harness", 4610.1).Op = history.NotePoint }, "effect-sent", Unknown, ""},
		"works before the answer": {func(_ *testing.T, r *Run) { r.Trial.Stands[0].Went = at(4700) }, "holding", Wrong, "w1.1.jsonl:9: w1.1/c1 did not wait: its effect came 90.0 ms before the answer"},
		"works too short":         {func(_ *testing.T, r *Run) { r.Trial.Stands[0].Went = at(4500) }, "holding", Wrong, "was told to work for 3.5 s (hold_ms), and its effect came after 110.0 ms"},
		"loses its lease": {func(t *testing.T, r *Run) {
			r.Trial.Stands[0].Went = at(4500)
			e := r.event(t, "w1.1", 4610)
			e.Type, e.Op = history.Note, history.NoteLeaseLost
			e.Key = "l"
		}, "holding", Unchecked, "lost its lease"},
		"nobody takes over":      {func(t *testing.T, r *Run) { r.event(t, "w1.2", 12003).Type = history.Fail }, "takeover", Wrong, "nobody was granted the lock any more"},
		"takes over late":        {func(_ *testing.T, r *Run) { r.TTL = 100 * time.Millisecond }, "takeover", Wrong, "w1.2.jsonl:5: w1.2/c1 was granted the lock 6.0 s after its start: at most 5.2 s"},
		"killed without a lease": {func(t *testing.T, r *Run) { r.event(t, "w1.1", 5006).Op = history.NoteLeaseLost }, "takeover", Unchecked, "found nobody in the lock"},
		"not killed":             {func(t *testing.T, r *Run) { r.event(t, "harness", 5400).Fault().Proven = false }, "takeover", Unknown, ""},
		"deaf":                   {func(t *testing.T, r *Run) { r.event(t, "harness", 17100).Life().Overdue = "did not end within 25s" }, "stop", Wrong, "w1.2 did not end within 25s, and was killed for it"},
		"exits with 3":           {func(t *testing.T, r *Run) { *r.event(t, "harness", 17100).Life().Code = 3 }, "stop", Wrong, "exit status 3"},
		"no exit note":           {func(t *testing.T, r *Run) { r.event(t, "w1.2", 17000).Op = history.NotePoint }, "stop", Wrong, "wrote no exit note"},
		"ended by the signal": {func(t *testing.T, r *Run) {
			l := r.event(t, "harness", 17100).Life()
			l.Code, l.Signal = nil, "SIGTERM"
		}, "stop", Hint, "the signal itself"},
		"no seal":          {func(t *testing.T, r *Run) { r.event(t, "harness", 18001).Type = history.Unknown }, "seal", Wrong, "no seal of l is ok"},
		"no read after it": {func(t *testing.T, r *Run) { r.event(t, "harness", 18003).Type = history.Unknown }, "seal", Wrong, "l was sealed and not read again"},
		"seal fails":       {func(t *testing.T, r *Run) { *r.event(t, "harness", 18100).Life().Code = 1 }, "seal", Wrong, "the task seal ended with exit status 1"},
		"too little":       {invalid("", "phase recover has 0 cycles", history.NoteExpect), "run", Wrong, "phase recover"},
		"fault not proven": {invalid("f1", "fault f1 was not injected", history.NoteExpect), "run", Unknown, "was not injected"},
		"host busy":        {func(_ *testing.T, r *Run) { r.Result.HostBusy = "late by 90 ms" }, "run", Hint, "late by 90 ms"},
		"violated": {func(_ *testing.T, r *Run) {
			p := &r.Result.Properties[1]
			p.Status, p.Count = checker.StatusFail, 2
			p.Violations = []checker.Violation{{Message: "twice", Events: []checker.EventRef{{File: "history/w1.1.jsonl", Line: 2}, {File: "history/w1.2.jsonl", Line: 8}}}}
		}, "P4", Wrong, "history/w1.2.jsonl:8: twice (and 1 more)"},
		"promised in vain": {func(_ *testing.T, r *Run) {
			r.Result.Properties[2] = checker.Property{ID: "P7", Status: checker.StatusNA, Detail: "nothing was checked: no decisions"}
		}, "P7", Wrong, "promised, and nothing was checked"},
		"promised where nobody reads it": {func(_ *testing.T, r *Run) {
			r.Store, r.Trial.Offer.Promises = "redis", []string{"P13"}
			r.Result.Properties = append(r.Result.Properties, checker.Property{ID: "P13", Status: checker.StatusUnknown, Detail: "not judged"})
		}, "P13", Wrong, "no run on redis can judge it"},
		"violated by a history with mistakes": {func(t *testing.T, r *Run) {
			r.event(t, "w1.2", 12004).ID, r.event(t, "w1.2", 12005).ID = 9, 9
			r.Result.Properties[2] = checker.Property{ID: "P7", Status: checker.StatusFail, Count: 1, Violations: []checker.Violation{{Message: "late"}}}
		}, "P7", Unchecked, "while the history has mistakes"},
		"compared with another clock": {func(t *testing.T, r *Run) {
			r.Clock.line(r.event(t, "w1.1", 11), at(11), at(5))
			r.Trial.Sent[0].At = 0
		}, "store", Unchecked, "mend the clock first"},
		"dies before it comes": {func(t *testing.T, r *Run) {
			r.event(t, "harness", 5012).Life().Asked = ""
			r.Trial.Stands[1].Proc = ""
		}, "effect-sent", Unchecked, "its process had ended"},
		"not finished": {func(_ *testing.T, r *Run) { r.Result.Properties[2].Status = checker.StatusUnknown }, "P7", Unknown, ""},
		"kept beyond":  {func(_ *testing.T, r *Run) { r.Trial.Offer.Promises = []string{"P4"} }, "P7", Hint, "not promised, though this history keeps it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tried(t)
			c.change(t, r)
			all := r.Findings(t.Context())
			if !slices.ContainsFunc(all, func(f Finding) bool {
				return f.Check == c.check && f.Status == c.status && strings.Contains(texts([]Finding{f}), c.want)
			}) {
				t.Errorf("%s is not %s by %q:\n%s", c.check, c.status, c.want, texts(all))
			}
			if worst := Worst(all); c.status == Wrong && worst != Wrong || c.status == Unknown && worst != Unknown {
				t.Errorf("all in all %s:\n%s", worst, texts(all))
			}
		})
	}
}

// A mistake that ended the run is told with its place, after what was well.
func TestMistake(t *testing.T) {
	t.Parallel()
	trial := own.Trial{Offer: &own.Offer{Promises: []string{"P4"}}, Ready: time.Second}
	bad := fmt.Errorf("w1.1: its history is malformed: %w", &history.FormatError{File: dir + "/history/w1.1.jsonl", Line: 7, Reason: "not a valid event"})
	all := OfMistake(dir, &own.Mistake{About: own.MistakeHistory, Err: bad}, trial)
	if len(all) != 3 || all[0].Status != OK || all[1].Status != OK || all[2].Status != Wrong || all[2].File != "history/w1.1.jsonl" || all[2].Line != 7 || all[2].Text != "w1.1: its history is malformed: not a valid event" || all[2].Do == "" {
		t.Errorf("%+v", all)
	}
	all = OfMistake(dir, &own.Mistake{About: own.MistakeSetup, Err: fmt.Errorf("exit status 3\n    no table")}, own.Trial{})
	if len(all) != 1 || Worst(all) != Wrong || !strings.Contains(texts(all), "setup          WRONG       exit status 3\n") || !strings.Contains(texts(all), "\n                           -> print one JSON object") {
		t.Errorf("%s", texts(all))
	}
}
