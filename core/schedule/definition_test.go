package schedule

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
)

func TestDefinitions(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1774746000123)
	for name, c := range map[string]struct {
		change func(*Definition)
		field  string
	}{
		"cron":                        {func(*Definition) {}, ""},
		"no queue":                    {func(d *Definition) { d.Queue = "" }, "queue"},
		"no key":                      {func(d *Definition) { d.Key = "" }, "key"},
		"long key":                    {func(d *Definition) { d.Key = strings.Repeat("k", MaxKey+1) }, "key"},
		"key not in UTF-8":            {func(d *Definition) { d.Key = "k\xff" }, "key"},
		"key in any UTF-8":            {func(d *Definition) { d.Key = "o\u0308\x00\ufffd" }, ""},
		"no kind":                     {func(d *Definition) { d.Timing = Timing{} }, "kind"},
		"at":                          {func(d *Definition) { d.Timing = Timing{Kind: At, At: at} }, ""},
		"at without time":             {func(d *Definition) { d.Timing = Timing{Kind: At} }, "at"},
		"at before 1970":              {func(d *Definition) { d.Timing = Timing{Kind: At, At: time.Unix(-1, 0)} }, "at"},
		"at in a year of five digits": {func(d *Definition) { d.Timing = Timing{Kind: At, At: time.Unix(lastSecond+1, 0)} }, "at"},
		"at the end of 9999":          {func(d *Definition) { d.Timing = Timing{Kind: At, At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} }, ""},
		"at the start of 10000":       {func(d *Definition) { d.Timing = Timing{Kind: At, At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} }, "at"},
		"at in microseconds":          {func(d *Definition) { d.Timing = Timing{Kind: At, At: at.Add(time.Microsecond)} }, "at"},
		"now":                         {func(d *Definition) { d.Timing = Timing{Kind: Now} }, ""},
		"now at":                      {func(d *Definition) { d.Timing = Timing{Kind: Now, At: at} }, "at"},
		"rate":                        {func(d *Definition) { d.Timing = Timing{Kind: FixedRate, Every: time.Second} }, ""},
		"rate at":                     {func(d *Definition) { d.Timing = Timing{Kind: FixedRate, Every: time.Second, At: at} }, ""},
		"rate of nothing":             {func(d *Definition) { d.Timing = Timing{Kind: FixedRate} }, "every"},
		"short rate":                  {func(d *Definition) { d.Timing = Timing{Kind: FixedRate, Every: MinEvery - time.Millisecond} }, "every"},
		"rate in microseconds":        {func(d *Definition) { d.Timing = Timing{Kind: FixedRate, Every: time.Second + 1} }, "every"},
		"long delay":                  {func(d *Definition) { d.Timing = Timing{Kind: FixedDelay, Every: MaxSpan + time.Second} }, "every"},
		"delay with overlap":          {func(d *Definition) { d.Timing, d.Overlap = Timing{Kind: FixedDelay, Every: time.Second}, OverlapAllow }, "overlap"},
		"delay with misfires":         {func(d *Definition) { d.Timing, d.Misfire = Timing{Kind: FixedDelay, Every: time.Second}, MisfireSkip }, "misfire"},
		"until":                       {func(d *Definition) { d.Until = at }, ""},
		"until before at":             {func(d *Definition) { d.At, d.Until = at, at.Add(-1) }, "until"},
		"until in microseconds":       {func(d *Definition) { d.Until = at.Add(1) }, "until"},
		"now until":                   {func(d *Definition) { d.Timing = Timing{Kind: Now, Until: at} }, "until"},
		"cron with every":             {func(d *Definition) { d.Every = time.Second }, "every"},
		"rate with cron":              {func(d *Definition) { d.Kind, d.Every = FixedRate, time.Second }, "cron"},
		"rate with zone":              {func(d *Definition) { d.Timing = Timing{Kind: FixedRate, Every: time.Second, Zone: "UTC"} }, "cron"},
		"bad cron":                    {func(d *Definition) { d.Cron = "* *" }, "cron"},
		"bad zone":                    {func(d *Definition) { d.Zone = "Hanoi" }, "zone"},
		"bad misfire":                 {func(d *Definition) { d.Misfire = "twice" }, "misfire"},
		"negative grace":              {func(d *Definition) { d.Grace = -1 }, "grace"},
		"window without all":          {func(d *Definition) { d.Window = time.Hour }, "window"},
		"window below grace":          {func(d *Definition) { d.Misfire, d.Window = MisfireAll, time.Second }, "window"},
		"bad overlap":                 {func(d *Definition) { d.Overlap = "replace" }, "overlap"},
		"job without kind":            {func(d *Definition) { d.Job.Kind = "" }, "kind"},
		"job with key":                {func(d *Definition) { d.Job.Key = "k" }, "template"},
		"bad follower":                {func(d *Definition) { d.Job.Then = []job.Job{{}} }, "then[0].kind"},
	} {
		d := Definition{Queue: "q", Key: "k", Timing: Timing{Kind: Cron, Cron: "0 2 * * *", Zone: "Asia/Ho_Chi_Minh"}, Job: job.Job{Kind: "mail"}}
		c.change(&d)
		s, err := New(d, 4)
		var invalid *InvalidError
		var badJob *job.InvalidError
		if c.field == "" && err != nil || c.field != "" && !(errors.As(err, &invalid) && invalid.Field == c.field || errors.As(err, &badJob) && badJob.Field == c.field) {
			t.Errorf("%s: %v, want field %q", name, err, c.field)
		}
		if err != nil {
			continue
		}
		body, _ := s.Encode()
		if back, err := Decode(body); err != nil || !reflect.DeepEqual(back, s.Definition) {
			t.Errorf("%s became %+v, %v", body, back, err)
		}
	}
	if _, err := Decode([]byte("[")); err == nil {
		t.Error("half a definition was read")
	}
}

// TestStart: what fires first, and whether what was due before the schedule was put does.
func TestStart(t *testing.T) {
	t.Parallel()
	const now = 1_000_000_000_500
	at := func(ms int64) time.Time { return time.UnixMilli(now + ms) }
	for name, c := range map[string]struct {
		d    Definition
		want int64 // of the first time, after now; Never: none
	}{
		"now":                    {Definition{Timing: Timing{Kind: Now}}, 0},
		"at, later":              {Definition{Timing: Timing{Kind: At, At: at(5000)}}, 5000},
		"at, past":               {Definition{Timing: Timing{Kind: At, At: at(-5000)}}, -5000},
		"at, long past":          {Definition{Timing: Timing{Kind: At, At: at(-500000)}}, -500000},
		"at, long past, skipped": {Definition{Timing: Timing{Kind: At, At: at(-500000)}, Misfire: MisfireSkip}, Never},
		"cron":                   {Definition{Timing: Timing{Kind: Cron, Cron: "* * * * * *"}}, 500},
		"cron, not before":       {Definition{Timing: Timing{Kind: Cron, Cron: "* * * * * *", At: at(9500)}}, 9500},
		"cron, long begun":       {Definition{Timing: Timing{Kind: Cron, Cron: "* * * * * *", At: at(-9500)}}, 500},
		"cron, just before at":   {Definition{Timing: Timing{Kind: Cron, Cron: "* * * * * *", At: at(9501)}}, 10500},
		"rate":                   {Definition{Timing: Timing{Kind: FixedRate, Every: 7 * time.Second}}, 0},
		"rate, due now":          {Definition{Timing: Timing{Kind: FixedRate, Every: 7 * time.Second, At: at(-7000)}}, 0},
		"rate, due just before":  {Definition{Timing: Timing{Kind: FixedRate, Every: 7 * time.Second, At: at(-7001)}}, 6999},
		"rate, later":            {Definition{Timing: Timing{Kind: FixedRate, Every: 7 * time.Second, At: at(3000)}}, 3000},
		"rate, past":             {Definition{Timing: Timing{Kind: FixedRate, Every: 7 * time.Second, At: at(-6000)}}, 1000},
		"delay":                  {Definition{Timing: Timing{Kind: FixedDelay, Every: 7 * time.Second}}, 0},
		"delay, later":           {Definition{Timing: Timing{Kind: FixedDelay, Every: 7 * time.Second, At: at(3000)}}, 3000},
		"delay, past":            {Definition{Timing: Timing{Kind: FixedDelay, Every: 7 * time.Second, At: at(-3000)}}, 0},
	} {
		s := mustNew(t, c.d)
		d := s.Decide(s.Start(now), now, 5)
		if len(d.Fire) == 0 && d.Next != Never {
			d = s.Decide(d.State, d.Next, 5)
		}
		got := int64(Never)
		if len(d.Fire) > 0 {
			got = d.Fire[0].Nominal - now
		}
		if got != c.want {
			t.Errorf("%s: the first is at %d, want %d", name, got, c.want)
		}
	}
}

func TestFixedDelay(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedDelay, Every: 10 * time.Second}})
	d := s.Decide(s.Start(0), 0, 5)
	if len(d.Fire) != 1 || d.Next != Never {
		t.Fatalf("%+v", d)
	}
	if again := s.Decide(d.State, 60000, 5); len(again.Fire) > 0 {
		t.Errorf("two at once: %+v", again)
	}
	d = s.Ended(d.State, d.Fire[0], 4000)
	if d.Next != 14000 || len(s.Decide(d.State, 13999, 5).Fire) > 0 {
		t.Errorf("after the end at 4000: %+v", d)
	}
	// Late, and not missed.
	d = s.Decide(d.State, 900000, 5)
	if len(d.Fire) != 1 || d.Fire[0].Nominal != 14000 || d.Missed != 0 {
		t.Errorf("%+v", d)
	}
	// It ends by a clock that was set back.
	if d = s.Ended(d.State, d.Fire[0], 2000); d.Next != 24000 {
		t.Errorf("nominal times must rise: %+v", d)
	}
	st := s.Disable(d.State, 30000).State
	if s.Decide(st, 30000, 5).Next != Never {
		t.Error("a disabled schedule wants to be woken")
	}
	if d = s.Decide(s.Enable(st, 50000), 50000, 5); len(d.Fire) > 0 || d.Next != 60000 {
		t.Errorf("enabled at 50000: %+v", d)
	}
	ending := mustNew(t, Definition{Timing: Timing{Kind: FixedDelay, Every: 10 * time.Second, Until: time.UnixMilli(60000)}})
	if n := ending.Next(d.State, 50000); n != Never {
		t.Errorf("a time at the end: %d", n)
	}
	m, err := s.Trigger(d.State, "t", 52000)
	if err != nil || len(m.Fire) != 1 || m.Next != Never {
		t.Fatalf("%+v, %v", m, err)
	}
	if d = s.Ended(m.State, m.Fire[0], 55000); d.Next != 65000 {
		t.Errorf("the delay counts from the end of a trigger too: %+v", d)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	minutely := Definition{Timing: Timing{Kind: FixedRate, Every: time.Minute}}
	old := mustNew(t, minutely)
	d := old.Decide(old.Start(1000), 61000, 5)
	if len(d.Fire) != 1 || d.Skipped != 1 || d.Next != 121000 {
		t.Fatalf("%+v", d)
	}
	same := mustNew(t, Definition{Timing: minutely.Timing, Grace: time.Hour, Job: job.Job{Kind: "mail"}})
	if st := same.Replace(old, d.State, 70000); !reflect.DeepEqual(st, d.State) {
		t.Errorf("another job at the same times: %+v became %+v", d.State, st)
	}
	other := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: 10 * time.Second}})
	st := other.Replace(old, d.State, 70000)
	if st.Active != d.Fire[0] || st.Skipped != 1 || other.Decide(st, 69999, 5).Next != 70000 {
		t.Errorf("other times: %+v", st)
	}
	// By a clock that is behind: what was fired is not fired again.
	if st := other.Replace(old, d.State, 5000); other.Decide(st, 5000, 5).Next != 65000 {
		t.Errorf("put by a clock that is behind: %+v, next %d", st, other.Decide(st, 5000, 5).Next)
	}
	// What waits in a queue that is not needed any more fires.
	queued := mustNew(t, Definition{Timing: minutely.Timing, Overlap: OverlapQueue, Misfire: MisfireAll})
	q := queued.Decide(queued.Start(61000), 61000, 5)
	q = queued.Decide(q.State, 241000, 5)
	free := mustNew(t, Definition{Timing: minutely.Timing, Overlap: OverlapAllow, Misfire: MisfireAll})
	d = free.Decide(free.Replace(queued, q.State, 242000), 242000, 2)
	if len(q.State.Queue) != 3 || !d.State.Active.IsZero() || len(d.Fire) != 2 || d.Fire[0].Nominal != 121000 || d.Fire[1].Nominal != 181000 || d.Next != 242000 {
		t.Errorf("%+v, then %+v", q, d)
	}
	if d = free.Decide(d.State, 242000, 2); len(d.Fire) != 1 || d.Fire[0].Nominal != 241000 || d.Next != 301000 {
		t.Errorf("then %+v", d)
	}
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}, Overlap: OverlapQueue})
	st := s.Decide(s.Start(0), 0, 5).State
	for n := range MaxQueue + 1 {
		d, err := s.Trigger(st, fmt.Sprint("t", n), 10)
		if st = d.State; n < MaxQueue && err != nil || n == MaxQueue && err != ErrOverlap {
			t.Fatalf("trigger %d: %v", n, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("t", MaxTrigger+1), "a b", "\"", "\x00", "ü", "a\n"} {
		var invalid *InvalidError
		if _, err := s.Trigger(s.Start(0), name, 0); !errors.As(err, &invalid) || invalid.Field != "trigger" {
			t.Errorf("trigger %q: %v", name, err)
		}
	}
	if d := s.Decide(st, 3000, 5); d.Skipped != 3 || len(d.State.Queue) != MaxQueue || d.Next != 4000 {
		t.Errorf("%d wait, %d are skipped, next %d", len(d.State.Queue), d.Skipped, d.Next)
	}
}

// TestPure: what was decided once does not change by what is decided later.
func TestPure(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}, Overlap: OverlapQueue})
	st := s.Decide(s.Start(0), 0, 5).State
	for n := range 5 {
		first, second := fmt.Sprint("a", n), fmt.Sprint("b", n) // a name that waits already does nothing
		a, _ := s.Trigger(st, first, 10)
		b, _ := s.Trigger(st, second, 20)
		if a.State.Queue[n].Trigger != first || b.State.Queue[n].Trigger != second || len(st.Queue) != n {
			t.Fatalf("%v became %v and %v", st.Queue, a.State.Queue, b.State.Queue)
		}
		st = a.State
	}
}

func TestVoid(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}})
	d := s.Decide(s.Start(0), 0, 5)
	v := s.Decide(s.Start(0), 0, 5, d.Fire...)
	if len(v.Fire) != 0 || v.State.Fired != 0 || !v.State.Active.IsZero() || v.State.Last != 0 {
		t.Errorf("%+v became %+v", d, v)
	}
	if n := s.Decide(v.State, 1000, 5); len(n.Fire) != 1 || n.Fire[0].Nominal != 1000 {
		t.Errorf("after it: %+v", n)
	}
}

// TestNothingWaitsForAVoidOne, neither what is queued nor what is due.
func TestNothingWaitsForAVoidOne(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}, Overlap: OverlapQueue, Misfire: MisfireAll})
	busy := s.Decide(s.Start(0), 0, 5)
	waits := s.Decide(busy.State, 2000, 5)
	over := s.Ended(waits.State, waits.State.Active, 2500)
	if len(over.State.Queue) != 2 {
		t.Fatalf("%+v", over)
	}
	d := s.Decide(over.State, 2500, 5, over.State.Queue[0])
	if len(d.Fire) != 1 || d.Fire[0] != over.State.Queue[1] || len(d.State.Queue) != 0 {
		t.Errorf("the first that waits is void: %+v", d)
	}
	d = s.Decide(over.State, 3000, 5, over.State.Queue...)
	if len(d.Fire) != 1 || d.Fire[0].Nominal != 3000 {
		t.Errorf("both that wait are void: %+v", d)
	}
}

func TestJobOf(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}})
	j := s.JobOf(job.Occurrence{Schedule: "k", Nominal: 5000})
	want, _ := s.ID().Shard()
	if n, err := j.ID.Shard(); err != nil || n != want || j.Check(4) != nil || j.Kind != "mail" || j.Key != "k@1970-01-01T00:00:05Z" {
		t.Errorf("%+v: %v", j, j.Check(4))
	}
}
