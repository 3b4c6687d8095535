package history

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestStrict: what a reader could take for something else, or skip, is refused with its
// place; beside each stands what may just pass.
func TestStrict(t *testing.T) {
	t.Parallel()
	heads := map[bool]string{false: string(encode(t, header("r", "w1.1", "b"))), true: string(encode(t, header("r", Harness, "b")))}
	expect := `{"ts":5,"proc":"harness","type":"note","op":"expect","expect":{"exempt":{"P11":"nobody dies"}}}`
	exit := `{"ts":5,"proc":"w1.1","type":"note","op":"exit"}`
	acquire := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"acquire","key":"l","from":{"absent":true,"fence":0,"beat":0,"attempt":"","holder":"","ttl_ms":0},"to":{"fence":1,"beat":0,"attempt":"a","holder":"w1.1/c1","ttl_ms":6000}}`
	stale := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"raise","key":"r","issuer":"l","token":1}` + "\n" + `{"ts":6,"proc":"w1.1/c1","id":1,"type":"fail","op":"raise","key":"r","result":"stale","seen":2}`
	locked := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"lock","key":"l"}` + "\n" + `{"ts":6,"proc":"w1.1/c1","id":1,"type":"ok","op":"lock","key":"l","token":1}`
	looked := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"read","key":"l"}` + "\n" + `{"ts":6,"proc":"w1.1/c1","id":1,"type":"ok","op":"read","key":"l","row":{"absent":true,"fence":0,"beat":0,"attempt":"","holder":"","ttl_ms":0}}`
	effect := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"effect","key":"r","issuer":"l","token":1,"effect_key":"k","value":1,"decided_at":4}` + "\n" + `{"ts":6,"proc":"w1.1/c1","id":1,"type":"ok","op":"effect","key":"r","result":"applied","seen":1,"seq":1}`
	tick := `{"ts":5,"proc":"w1.1/q:0","id":1,"type":"invoke","op":"tick","key":"shard/q/0","from":{"fence":1,"beat":1,"attempt":"a","holder":"","ttl_ms":0},"to":{"fence":1,"beat":2,"attempt":"b","holder":"","ttl_ms":0},"changes":[{"job":"j","do":"claim","run":1,"attempt":1}]}`
	for name, c := range map[string]struct {
		line, old, new string
		says           string // "": it may
	}{
		"nothing changed":               {exit, "exit", "exit", ""},
		"unknown operation":             {exit, `"exit"`, `"leave"`, `unknown operation or note "leave"`},
		"unknown kind of event":         {exit, `"note"`, `"end"`, `unknown type "end"`},
		"unknown field":                 {exit, `"exit"`, `"exit","colour":1`, `unknown field "colour"`},
		"field of another note":         {exit, `"exit"`, `"exit","phase":"seal"`, "exit note has phase"},
		"field that is zero":            {exit, `"exit"`, `"exit","token":0`, "exit note has token"},
		"field that may be zero":        {exit, `"exit"`, `"exit","error":""`, ""},
		"null":                          {exit, `"exit"`, `"exit","error":null`, "error: is null"},
		"doubled field":                 {exit, `"ts":5`, `"ts":5,"ts":5`, "field ts is there twice"},
		"doubled field further in":      {acquire, `"fence":1`, `"fence":1,"fence":2`, "to: field fence is there twice"},
		"name in another case":          {exit, `"ts"`, `"TS"`, `unknown field "TS"`},
		"name with an escape":           {exit, `"ts"`, `"\u0074s"`, ""},
		"invalid UTF-8":                 {exit, `"exit"`, "\"exit\",\"error\":\"\xff\"", "invalid UTF-8"},
		"half a surrogate":              {exit, `"exit"`, `"exit","error":"\ud800"`, "surrogate"},
		"a whole surrogate":             {exit, `"exit"`, `"exit","error":"\ud83d\ude00"`, ""},
		"number that does not fit":      {exit, `"ts":5`, `"ts":9223372036854775808`, "ts: is 9223372036854775808, out of range"},
		"instant that overflows":        {exit, `"ts":5`, `"ts":4611686018427387905`, "out of range"},
		"the last instant":              {exit, `"ts":5`, `"ts":4611686018427387904`, ""},
		"fraction":                      {exit, `"ts":5`, `"ts":5.5`, "not an integer"},
		"number as a text":              {exit, `"ts":5`, `"ts":"5"`, "ts: is a string, not a number"},
		"text as a number":              {exit, `"w1.1"`, `11`, "proc: is a number, not a string"},
		"empty text that must be there": {acquire, `"key":"l"`, `"key":""`, "key: is empty"},
		"ttl that overflows in ns":      {acquire, `"ttl_ms":6000`, `"ttl_ms":9223372036855`, "to: ttl_ms: is 9223372036855, out of range"},
		"the longest ttl":               {acquire, `"ttl_ms":6000`, `"ttl_ms":1000000000000`, ""},
		"negative fence":                {acquire, `"fence":1`, `"fence":-1`, "to: fence: is -1, out of range"},
		"unknown field further in":      {acquire, `"fence":1`, `"fence":1,"epoch":1`, `to: unknown field "epoch"`},
		"unknown result":                {stale, `"stale"`, `"late"`, `unknown result "late"`},
		"result of another end":         {stale, `"stale"`, `"duplicate"`, `raise fail has the result "duplicate": it may be stale`},
		"stale by nothing":              {stale, `,"seen":2`, ``, "no seen"},
		"stale":                         {stale, "stale", "stale", ""},
		"unknown change":                {tick, `"claim"`, `"lose"`, `changes: do: unknown do "lose"`},
		"claim of no run":               {tick, `"run":1,`, ``, "changes: claim has no run"},
		"claim of run 0":                {tick, `"run":1`, `"run":0`, "changes: claim has no run: it is zero or empty"},
		"date that overflows":           {tick, `"run":1`, `"run":1,"due_ms":9223372036855`, "changes: due_ms: is 9223372036855, out of range"},
		"shard's change without a wall": {tick, `{"job":"j","do":"claim","run":1,"attempt":1}`, `{"do":"pause"}`, "tick has a pause and no wall_ms"},
		"shard's change":                {tick, `"changes":[{"job":"j","do":"claim","run":1,"attempt":1}]`, `"changes":[{"do":"pause"}],"wall_ms":7`, ""},
		"exempt":                        {expect, `"P11"`, `"P11"`, ""},
		"exempt of nothing known":       {expect, `"P11"`, `"P99"`, `expect: exempt: unknown property "P99"`},
		"exempt without a reason":       {expect, `"nobody dies"`, `""`, "expect: exempt: P11: is empty"},
		"exempt twice":                  {expect, `"P11":"nobody dies"`, `"P11":"a","P11":"b"`, "expect: exempt: P11 is there twice"},
		"granted without a token":       {locked, `,"token":1`, ``, "lock ok has no token"},
		"granted with token 0":          {locked, `"token":1`, `"token":0`, "lock ok has no token"},
		"granted":                       {locked, `"token":1`, `"token":2`, ""},
		"read without a row":            {looked, `,"row":{"absent":true,"fence":0,"beat":0,"attempt":"","holder":"","ttl_ms":0}`, ``, "read ok has no row"},
		"read of an absent row":         {looked, `"row"`, `"row"`, ""},
		"done without a result":         {effect, `,"result":"applied"`, ``, "effect ok has no result"},
		"done without a token seen":     {effect, `,"seen":1`, ``, "effect ok has no seen"},
		"done":                          {effect, `"applied"`, `"duplicate"`, ""},
		"derived point":                 {exit, `"exit"`, `"point","point":"takeover"`, `point "takeover" is not for anybody to note`},
		"a worker's point":              {exit, `"exit"`, `"point","point":"member-gone"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(c.line, c.old) {
				t.Fatalf("nothing to change: %s", c.old)
			}
			text := heads[c.line == expect] + strings.Replace(c.line, c.old, c.new, 1) + "\n"
			strict(t, text, 1+strings.Count(c.line, "\n")+1, c.says)
		})
	}
}

// strict reads text, which is to be refused at a line if says is not "".
func strict(t *testing.T, text string, line int, says string) {
	t.Helper()
	_, err := Read(strings.NewReader(text), "f")
	var fe *FormatError
	switch {
	case says == "" && err != nil:
		t.Errorf("refused: %v", err)
	case says == "":
	case !errors.As(err, &fe) || fe.Line != line || !strings.Contains(fe.Reason, says):
		t.Errorf("%v, want line %d and %q", err, line, says)
	}
}

// TestStrictHeader is TestStrict for headers.
func TestStrictHeader(t *testing.T) {
	t.Parallel()
	sound := `{"format":"fencepost-history","version":1,"run":"r","proc":"w1.1","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-02T03:04:05Z","ts":5,"drift_bound":0.01,"margin_base_ms":100,"promises":["P1"]}`
	for name, c := range map[string]struct{ old, new, says string }{
		"nothing changed":       {"r", "r", ""},
		"drift of a half":       {`0.01`, `0.5`, "drift_bound: is 0.5, out of range"},
		"drift below a half":    {`0.01`, `0.4999`, ""},
		"no drift":              {`0.01`, `0`, ""},
		"negative drift":        {`0.01`, `-0.01`, "drift_bound: is -0.01, out of range"},
		"drift beyond a number": {`0.01`, `1e999`, "drift_bound: is 1e999, out of range"},
		"margin that overflows": {`"margin_base_ms":100`, `"margin_base_ms":9223372036855`, "margin_base_ms: is 9223372036855, out of range"},
		"unknown promise":       {`"P1"`, `"P1","P99"`, `promises: unknown property "P99"`},
		"promise of the run's":  {`"P1"`, `"P15"`, `promises: unknown property "P15"`},
		"promise in small":      {`"P1"`, `"p1"`, `promises: unknown property "p1"`},
		"no promise at all":     {`["P1"]`, `[]`, "promises: is empty: leave it out to promise all"},
		"all promises":          {`,"promises":["P1"]`, ``, ""},
		"no run":                {`"run":"r"`, `"run":""`, "run: is empty"},
		"no boot":               {`"boot_id":"b",`, ``, "has no boot_id"},
		"no time":               {`2025-01-02T03:04:05Z`, `today`, `wall_time is "today"`},
		"doubled field":         {`"ts":5`, `"ts":5,"ts":6`, "field ts is there twice"},
		"name in another case":  {`"ts"`, `"Ts"`, `unknown field "Ts"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(sound, c.old) {
				t.Fatalf("nothing to change: %s", c.old)
			}
			strict(t, strings.Replace(sound, c.old, c.new, 1)+"\n", 1, c.says)
		})
	}
}

// TestOnlyTheHarnessKnows: what only the harness can know counts from its own file alone,
// and what is a worker's from none but a worker's.
func TestOnlyTheHarnessKnows(t *testing.T) {
	t.Parallel()
	move := func(e Event, from, to string) Event {
		if Life(e.Proc) == from {
			e.Proc = to + e.Proc[len(from):]
		}
		return e
	}
	seen := map[Op]bool{}
	try := func(events []Event, from, to string, refused author, says string) {
		for _, e := range events {
			f := formOf[e.Op]
			if f.by != refused || e.Type != Invoke && e.Type != Note {
				continue
			}
			seen[e.Op] = true
			text := encode(t, header("r", to, "b"), move(e, from, to))
			strict(t, string(text), 2, fmt.Sprintf(says, e.Op))
			if h, err := Read(bytes.NewReader(encode(t, header("r", from, "b"), e)), "f"); err != nil || len(h.Events) != 1 {
				t.Errorf("%s in its own file: %v", e.Op, err)
			}
		}
	}
	try(everyEvent(t, Harness), Harness, "w1.1", harnessOnly, "%s in the file of w1.1: only the harness can know it")
	try(everyEvent(t, "w1.1"), "w1.1", Harness, workers, "%s in the file of the harness: it is a worker's to record")
	for _, f := range forms {
		if f.by != anyone && !seen[f.op] {
			t.Errorf("%s was not tried", f.op)
		}
	}
	for _, op := range []Op{NotePhase, NoteFault, NoteExpect, NoteLedger, NoteRow, NoteRowsEnd, NoteBook, NoteClock, NoteCrash, OpSeal} {
		if formOf[op].by != harnessOnly {
			t.Errorf("%s is not the harness's alone", op)
		}
	}
}

// TestEmptyFile: a life that is killed before its header leaves nothing, which is legal.
func TestEmptyFile(t *testing.T) {
	t.Parallel()
	h, err := Read(strings.NewReader(""), "w2.1.jsonl")
	if err != nil || len(h.Headers)+len(h.Events)+h.Torn != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	strict(t, "\n", 1, "header")
}

// seeds are files of every kind: whole, torn, malformed, of the harness.
func seeds(t testing.TB) [][]byte {
	all := encode(t, header("r", "w1.1", "b"), everyEvent(t, "w1.1")...)
	host := encode(t, header("r", Harness, "b"), everyEvent(t, Harness)...)
	lines := bytes.SplitAfter(all, []byte("\n"))
	swapped := bytes.Join([][]byte{lines[0], lines[6], lines[5]}, nil)
	return [][]byte{
		all, host, swapped,
		all[:len(all)-1],                         // without the last newline
		all[:len(all)-9],                         // torn
		all[:40],                                 // torn header
		bytes.Join([][]byte{lines[0], all}, nil), // a header as an event
		append(bytes.Clone(all), "\n\n"...),
		append(bytes.Clone(lines[0]), `{"ts":1,"proc":"w1.1","type":"note","op":"exit"} {"ts":2}`...),
		append(bytes.Clone(lines[0]), `{"ts":1,"proc":"w1.1","type":"note","op":"point","sends":[],"fault":null,"error":"\ud800"}`...),
		[]byte(`{"format":"fencepost-history","version":1}` + "\n" + `{"ts":1,"proc":"w","type":"note","op":"fault"}`),
		append(bytes.Clone(lines[0]), `{"ts":1,"ts":1,"proc":"w1.1","type":"note","op":"exit"}`...),
		append(bytes.Clone(lines[0]), `{"Ts":1,"proc":"w1.1","type":"note","op":"exit"}`...),
		append(bytes.Clone(lines[0]), "{\"ts\":1,\"proc\":\"w1.1\",\"type\":\"note\",\"op\":\"exit\",\"error\":\"\xff\"}"...),
		append(bytes.Clone(lines[0]), `{"ts":9223372036854775808,"proc":"w1.1","type":"note","op":"exit"}`...),
		[]byte("\n"), nil,
	}
}

// FuzzRead: any bytes give a history or an error that names the place; what is
// accepted can be joined, merged and written again to the same effect, and loses
// no more than its last event when it is torn.
func FuzzRead(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := readOrPlace(t, data)
		if h == nil || len(h.Headers) == 0 {
			return
		}
		for _, o := range h.Operations() {
			if o.Outcome != Unknown && o.End.TS < o.Invoke.TS {
				t.Fatalf("%+v", o)
			}
		}
		h.Phases()
		h.Faults()
		again := encode(t, h.Headers[0], h.Events...)
		copied, err := Read(bytes.NewReader(again), "f")
		if err != nil || copied.Torn != 0 || !bytes.Equal(encode(t, copied.Headers[0], copied.Events...), again) {
			t.Fatalf("written again it is another history: %v", err)
		}
		if _, err := Merge(h); err != nil {
			t.Fatal(err)
		}
		if n := len(h.Events); n > 0 {
			torn, err := Read(bytes.NewReader(again[:len(again)-3]), "f")
			if err != nil || len(torn.Events) != n-1 || torn.Torn != 1 {
				t.Fatalf("torn it does not read as what is before: %v", err)
			}
		}
	})
}

// FuzzDamaged changes one byte or one line of a whole file: it reads as another
// history or is refused at a line of the file.
func FuzzDamaged(f *testing.F) {
	whole := seeds(f)[0]
	f.Add(uint16(3), byte(0), byte(1))
	f.Add(uint16(900), byte(1), byte('{'))
	f.Add(uint16(2), byte(2), byte(0))
	f.Add(uint16(5), byte(3), byte(0))
	f.Add(uint16(700), byte(4), byte(0))
	f.Fuzz(func(t *testing.T, at uint16, kind, with byte) {
		data := damage(whole, int(at), kind, with)
		h := readOrPlace(t, data)
		if h != nil && len(h.Events)+h.Torn+1 != countLines(data) {
			t.Fatalf("%d events and %d torn of %d lines: a line was skipped", len(h.Events), h.Torn, countLines(data))
		}
	})
}

func damage(whole []byte, at int, kind, with byte) []byte {
	data := bytes.Clone(whole)
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines = lines[:len(lines)-1] // what follows the last newline
	line := at % len(lines)
	switch kind % 5 {
	case 0:
		data[at%len(data)] ^= 1 << (with % 8)
		return data
	case 1:
		data[at%len(data)] = with
		return data
	case 2: // a line is lost
		return bytes.Join(append(lines[:line:line], lines[line+1:]...), nil)
	case 3: // a line is doubled
		return bytes.Join(append(lines[:line+1:line+1], lines[line:]...), nil)
	}
	return data[:at%len(data)]
}

func countLines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

// readOrPlace reads data or fails unless the error names a line of it.
func readOrPlace(t *testing.T, data []byte) *History {
	t.Helper()
	h, err := Read(bytes.NewReader(data), "f")
	if err == nil {
		return h
	}
	var fe *FormatError
	if !errors.As(err, &fe) || fe.File != "f" || fe.Line < 1 || fe.Line > max(1, countLines(data)) {
		t.Fatalf("error without a place in the file: %v", err)
	}
	return nil
}
