package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// soundLife is a life of one cycle as it should be, a line an event.
func soundLife() []string {
	v := func(fence, beat int, attempt, holder string) string {
		return fmt.Sprintf(`{"fence":%d,"beat":%d,"attempt":%q,"holder":%q,"ttl_ms":6000}`, fence, beat, attempt, holder)
	}
	c := `"proc":"w1.1/c1"`
	held, free := v(1, 0, "a1", "w1.1/c1"), v(1, 1, "a2", "")
	return []string{
		`{"ts":10,` + c + `,"id":1,"type":"invoke","op":"lock","key":"l"}`,
		`{"ts":11,` + c + `,"id":2,"type":"invoke","op":"acquire","key":"l","from":{"absent":true,"fence":0,"beat":0,"attempt":"","holder":"","ttl_ms":0},"to":` + held + `}`,
		`{"ts":13,` + c + `,"id":2,"type":"ok","op":"acquire","key":"l","sends":[12]}`,
		`{"ts":14,` + c + `,"id":1,"type":"ok","op":"lock","key":"l","token":1}`,
		`{"ts":15,` + c + `,"id":3,"type":"invoke","op":"raise","key":"r","issuer":"l","token":1}`,
		`{"ts":16,` + c + `,"id":3,"type":"ok","op":"raise","key":"r","result":"applied","seen":1,"seq":1}`,
		`{"ts":17,` + c + `,"id":4,"type":"invoke","op":"get","key":"r"}`,
		`{"ts":18,` + c + `,"id":4,"type":"ok","op":"get","key":"r","value":0,"seen":1,"seq":1}`,
		`{"ts":20,` + c + `,"type":"note","op":"start","key":"l","token":1,"decided_at":19}`,
		`{"ts":22,` + c + `,"id":5,"type":"invoke","op":"effect","key":"r","issuer":"l","token":1,"effect_key":"k","value":1,"decided_at":21}`,
		`{"ts":23,` + c + `,"id":5,"type":"ok","op":"effect","key":"r","result":"applied","seen":1,"seq":2}`,
		`{"ts":24,` + c + `,"type":"note","op":"finish","key":"l","token":1}`,
		`{"ts":25,` + c + `,"id":6,"type":"invoke","op":"release","key":"l","from":` + held + `,"to":` + free + `}`,
		`{"ts":26,` + c + `,"id":6,"type":"unknown","op":"release","key":"l","sends":[25]}`,
		`{"ts":27,` + c + `,"id":7,"type":"invoke","op":"release","key":"l","from":` + held + `,"to":` + free + `}`,
		`{"ts":28,` + c + `,"id":7,"type":"ok","op":"release","key":"l","sends":[27]}`,
		`{"ts":29,"proc":"w1.1","type":"note","op":"exit"}`,
	}
}

func lintText(t *testing.T, lines []string, promises ...string) string {
	t.Helper()
	head := `{"format":"fencepost-history","version":1,"run":"r","proc":"w1.1","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-02T03:04:05Z","ts":5,"drift_bound":0.01,"margin_base_ms":100`
	if len(promises) > 0 {
		head += `,"system":"s","promises":["` + strings.Join(promises, `","`) + `"]`
	}
	head += "}"
	h, err := Read(strings.NewReader(strings.Join(append([]string{head}, lines...), "\n")+"\n"), "w1.1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range Lint(h).Remarks {
		out = append(out, r.String())
	}
	return strings.Join(out, "\n")
}

// TestLintSharedKeys: only runs of a job share a key, and only what promises neither deadlines nor exclusion has runs.
func TestLintSharedKeys(t *testing.T) {
	t.Parallel()
	life := soundLife()
	for i, line := range soundLife()[:16] {
		again := strings.NewReplacer(`"a1"`, `"b1"`, `"a2"`, `"b2"`, `"token":1`, `"token":2`).Replace(line)
		for id := 7; id > 0; id-- {
			again = strings.Replace(again, fmt.Sprintf(`"id":%d,`, id), fmt.Sprintf(`"id":%d,`, id+7), 1)
		}
		life = slices.Insert(life, 16+i, again)
	}
	for promises, want := range map[string]bool{"": true, "P4,P7,P10": true, "P4,P8,P10": true, "P3,P4,P10": false, "P4,P10": false} {
		said := lintText(t, life, strings.FieldsFunc(promises, func(r rune) bool { return r == ',' })...)
		if strings.Contains(said, `effect_key "k" is that of line 11`) != want {
			t.Errorf("of one that promises %q: %s", promises, said)
		}
	}
}

// Each mistake is remarked, once, with its line; the life without one is not.
func TestLint(t *testing.T) {
	t.Parallel()
	if got := lintText(t, soundLife()); got != "" {
		t.Errorf("a sound life: %s", got)
	}
	point := `{"ts":18,"proc":"w1.1","type":"note","op":"point","point":"x"}`
	raised := `{"ts":16,"proc":"w1.1/c1","id":3,"type":"ok","op":"raise","key":"r","result":"applied","seen":1,"seq":1}`
	got := `{"ts":18,"proc":"w1.1/c1","id":4,"type":"ok","op":"get","key":"r","value":0,"seen":1,"seq":1}`
	released := `{"ts":26,"proc":"w1.1/c1","id":6,"type":"unknown","op":"release","key":"l","sends":[25]}`
	granted := `{"ts":13,"proc":"w1.1/c1","id":2,"type":"ok","op":"acquire","key":"l","sends":[12]}`
	asks := `{"ts":17,"proc":"w1.1/c1","id":4,"type":"invoke","op":"get","key":"r"}`
	for name, c := range map[string]struct{ old, new, want string }{ // want "": it may
		"wall clock":       {`{"ts":20,`, `{"ts":1735787045000000000,`, "w1.1.jsonl:10: ts 1735787045000000000 is not within a week"},
		"no client":        {`"w1.1/c1","id":4`, `"w1.1","id":4`, `w1.1.jsonl:8: proc "w1.1" is no client of the life`},
		"row deleted":      {`"to":{"fence":1,"beat":1,"attempt":"a2","holder":"","ttl_ms":6000}}`, `"to":{"absent":true,"fence":0,"beat":0,"attempt":"","holder":"","ttl_ms":0}}`, "w1.1.jsonl:14: release of l deletes its row, so that no chain"},
		"attempt again":    {`"attempt":"a2"`, `"attempt":"a1"`, `w1.1.jsonl:14: release sets attempt "a1", which line 3 sets already`},
		"other holder":     {`"holder":"w1.1/c1"`, `"holder":"me"`, `acquire sets holder "me"`},
		"no sends":         {`,"sends":[12]`, ``, "w1.1.jsonl:4: acquire is ok without sends"},
		"no seq":           {`"seen":1,"seq":2`, `"seen":1`, "effect was applied without the seq"},
		"decided later":    {`"decided_at":21`, `"decided_at":99`, "w1.1.jsonl:11: effect was decided at 99, after"},
		"decided at once":  {`"decided_at":21`, `"decided_at":22`, ""},
		"gap":              {`"id":7,`, `"id":9,`, "w1.1.jsonl:16: the record of w1.1 has lost events: 2 ids are missing among 7 operations, the first before id 9"},
		"sent before":      {`"sends":[12]`, `"sends":[10]`, "w1.1.jsonl:3: acquire by w1.1/c1, id 2, has a send outside"},
		"sent at once":     {`"sends":[12]`, `"sends":[11,13]`, ""},
		"sent in disorder": {`"sends":[12]`, `"sends":[13,12]`, "has a send outside"},
		"no end":           {got, point, "w1.1.jsonl:8: the record of w1.1 has lost events: get (id 4) is without an end although its client went on"},
		"end of a row's":   {released, point, "w1.1.jsonl:14: the record of w1.1 has lost events: release (id 6) has no end, and the life ended in order"},
		"grant's end":      {granted, point, "w1.1.jsonl:3: the record of w1.1 has lost events: an acquire of l (id 2) has no end although its lock call was answered"},
		"overlapping":      {raised + "\n" + asks, asks + "\n" + strings.Replace(raised, `"ts":16`, `"ts":17`, 1), "w1.1.jsonl:6: raise (id 3) of w1.1/c1 had not ended when it began get (id 4)"},
		"beside it":        {got + "\n", strings.Replace(strings.Replace(released, "26", "18", 1), `"sends":[25]`, `"error":"late"`, 1) + "\n" + got + "\n", ""},
		"no exit":          {`"op":"exit"`, `"op":"point","point":"x"`, "w1.1.jsonl: the record of w1.1 has lost events: it ends neither with an exit note"},
		"nothing released": {`"type":"ok","op":"release"`, `"type":"fail","op":"release"`, "the run: no lock cycle was completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Join(soundLife(), "\n")
			if !strings.Contains(text, c.old) {
				t.Fatalf("nothing to change: %s", c.old)
			}
			text = strings.ReplaceAll(text, c.old, c.new)
			if name == "beside it" { // its release has begun long before
				text = besideIt(text)
			}
			got := lintText(t, strings.Split(text, "\n"))
			if !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := lintText(t, nil); !strings.Contains(got, "worker w1 has recorded no operation") {
		t.Errorf("an empty life: %q", got)
	}
}

// besideIt moves the first release's invocation before the get, whose line its end crosses.
func besideIt(text string) string {
	lines := strings.Split(text, "\n")
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"ts":25,`) })
	release := strings.Replace(lines[from], `"ts":25`, `"ts":17`, 1)
	to := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"ts":17,`) })
	last := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"ts":26,`) })
	lines = slices.Delete(lines, last, last+1)
	return strings.Join(slices.Insert(slices.Delete(lines, from, from+1), to, release), "\n")
}

// One of a kind is shown, the others are counted; a killed life may end anywhere.
func TestLintCounts(t *testing.T) {
	t.Parallel()
	lines := soundLife()
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, `"decided_at":19`, `"decided_at":99`)
	}
	again := `{"ts":20,"proc":"w1.1/c1","type":"note","op":"start","key":"l","token":1,"decided_at":21}`
	if got := lintText(t, append(lines[:len(lines)-1:len(lines)-1], again, again, lines[len(lines)-1])); !strings.Contains(got, "start was decided at 99, after it was recorded (and 2 more)") {
		t.Errorf("%s", got)
	}
	killed := &History{Headers: []Header{{Proc: "w1.1"}}, Events: []Event{
		{TS: 1, Proc: "w1.1/c1", ID: 1, Type: Invoke, Op: OpRelease, From: &Version{}, To: &Version{}},
		{TS: 2, Proc: "w1.1/c1", ID: 1, Type: OK, Op: OpRelease},
		{TS: 3, Proc: "w1.1/c1", ID: 2, Type: Invoke, Op: OpLock},
		{TS: 4, Proc: "w1.1", Type: Note, Op: NoteCrash},
	}}
	if got := Lint(killed).Remarks; len(got) != 0 {
		t.Errorf("a killed life: %v", got)
	}
	if got := Tally(killed, "w1.1"); got != "lock 1 unknown, release 1 ok" {
		t.Errorf("tally %q", got)
	}
}

// TestEveryKindNeedsItsEnd: whatever the operation, in a life that ended in order it has an
// end, if only an unknown one; a killed life may owe it. What is of a client's main line
// does not overlap with anything of it.
func TestEveryKindNeedsItsEnd(t *testing.T) {
	t.Parallel()
	said := func(text string, events ...Event) bool {
		for i := range events {
			events[i].TS = int64(10 + i)
		}
		found := Lint(&History{Headers: []Header{{Proc: "w1.1", TS: 1}}, Events: events}).Remarks
		return slices.ContainsFunc(found, func(r Remark) bool { return strings.Contains(r.Text, text) })
	}
	row := &Version{Fence: 1, Attempt: "a", Holder: "w1.1/c1", TTLMS: 1}
	for _, f := range forms {
		if f.invoke == "" || f.by == harnessOnly {
			continue
		}
		t.Run(string(f.op), func(t *testing.T) {
			t.Parallel()
			asks := Event{Proc: "w1.1/c1", ID: 1, Type: Invoke, Op: f.op, Key: "l", From: row, To: row}
			next, ends := asks, Event{Proc: "w1.1/c1", ID: 1, Type: Unknown, Op: f.op, Key: "l"}
			next.ID, next.EffectKey = 2, "other"
			after := ends
			after.ID = 2
			exit := Event{Proc: "w1.1", Type: Note, Op: NoteExit}
			crash := Event{Proc: "w1.1", Type: Note, Op: NoteCrash}
			switch {
			case !said("has no end", asks, exit):
				t.Error("without its end: no remark")
			case said("has no end", asks, ends, exit), said("has no end", asks, crash):
				t.Error("it has an end, or its life was killed: a remark all the same")
			case said("had not ended when", asks, next, ends, after, exit) != f.main:
				t.Errorf("overlapping: remarked %v", !f.main)
			case said("had not ended when", asks, ends, next, after, exit):
				t.Error("one after the other: a remark all the same")
			}
		})
	}
}
