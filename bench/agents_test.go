package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fencepost/core/store"
	"fencepost/reports"
)

// actEnv makes this test binary an agent. Its value is what process 2 does wrong in round 1:
// how, or nothing if it is "well".
const actEnv = "FENCEPOST_BENCH_TEST"

// jointSuite has one arm of six threads in three processes, and one in this.
type jointSuite struct {
	*fake
	how       string
	process   int
	imported  []json.RawMessage
	interrupt context.CancelFunc // in the second round; nil: nothing does
}

func newJoint(how string) *jointSuite {
	plan, err := NewPlan(Config{Rounds: 5, Window: 100 * time.Millisecond}, [][]Arm{{
		{ID: "A", Threads: 1}, {ID: "X/3x2", Threads: 6, Processes: 3, Parts: []string{"half"}},
	}})
	if err != nil {
		panic(err)
	}
	return &jointSuite{fake: &fake{suite: &suite{plan: plan}}, how: how}
}

func (s *jointSuite) Design() Design {
	return Design{Plan: s.plan, WarmUp: []Arm{{ID: "warmup", Threads: 1}}}
}

func (s *jointSuite) Open(_ context.Context, env *Env) error {
	if s.process = env.Process; s.process == 2 && s.how == "cannot open" {
		return errFake
	}
	return nil
}

func (s *jointSuite) Subject(a Arm, stream uint64) (Subject, error) {
	if s.process == 0 {
		return s.fake.Subject(a, stream)
	}
	return &jointArm{suite: s, op: &timed{takes: always(10 * time.Millisecond)}}, nil
}

func (s *jointSuite) Round(samples []Sample) string {
	if s.interrupt != nil {
		time.AfterFunc(startDelay+50*time.Millisecond, s.interrupt)
	}
	return ""
}

func (s *jointSuite) Export() any { return []int{s.process, os.Getpid()} }

func (s *jointSuite) Import(all []json.RawMessage) error {
	s.imported = all
	return nil
}

// jointArm is an arm in an agent.
type jointArm struct {
	suite *jointSuite
	op    *timed
}

func (a *jointArm) Window(ctx context.Context, w Window) (Sample, error) {
	how := a.suite.how
	if a.suite.process != 2 || w.Round != 1 {
		how = ""
	}
	switch how {
	case "dies":
		fmt.Fprintln(os.Stderr, "a line before\npanic: on purpose")
		os.Exit(3)
	case "hangs":
		select {}
	case "talks nonsense":
		fmt.Println("all is well")
	case "fails":
		return Sample{}, errFake
	case "is killed in the window":
		time.AfterFunc(startDelay+50*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	case "fails in the end":
		_, _ = w.Loop(ctx, a.op)
		return Sample{}, errFake
	case "measures another round":
		w.Round++
	case "leaves a thread out":
		w.Arm.Threads--
	}
	return w.Loop(ctx, a.op)
}

func (a *jointArm) Close(context.Context) error {
	if a.suite.process == 2 && a.suite.how == "cannot close" {
		return errFake
	}
	return nil
}

// act is the life of an agent.
func act(how string) int {
	err := serve(context.Background(), os.Stdin, os.Stdout, func(_ context.Context, cfg AgentConfig) (Joint, *Env, func(), error) {
		var secret string
		if err := json.Unmarshal(cfg.Suite, &secret); err != nil || secret != "of the suite" {
			return nil, nil, nil, fmt.Errorf("the suite is made from %q, %w", cfg.Suite, err)
		}
		return newJoint(how), &Env{}, func() {}, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func measureJoint(t *testing.T, how string, limit time.Duration) (*jointSuite, *Result, error) {
	s := newJoint(how)
	r, err := s.measure(t, t.Context(), limit)
	return s, r, err
}

func (s *jointSuite) measure(t *testing.T, ctx context.Context, limit time.Duration) (*Result, error) {
	return Measure(ctx, s, &Env{Launch: &Launch{
		Command: func() *exec.Cmd {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), actEnv+"="+s.how)
			return cmd
		},
		Dir: t.TempDir(), Suite: "of the suite", prepare: limit,
	}}, NewProgress(nil))
}

// TestProcessesInterrupted: a window that is cut is no sample, and the processes tell what
// they know.
func TestProcessesInterrupted(t *testing.T) {
	t.Parallel()
	s := newJoint("well")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.interrupt = cancel
	r, err := s.measure(t, ctx, 20*time.Second)
	if err != nil || len(s.imported) != 3 {
		t.Fatalf("%v, %d processes were looked at", err, len(s.imported))
	}
	if len(r.samples("X/3x2")) != 1 || strings.Contains(strings.Join(r.Problems, "\n"), "process ") {
		t.Errorf("%d samples, problems %q", len(r.samples("X/3x2")), r.Problems)
	}
}

// TestProcesses: the threads of an arm are spread over processes, and what those measured
// and know comes together.
func TestProcesses(t *testing.T) {
	t.Parallel()
	s, r, err := measureJoint(t, "well", 0)
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("%v, problems %q", err, r.Problems)
	}
	samples := r.samples("X/3x2")
	if len(samples) != 5 {
		t.Fatalf("%d samples", len(samples))
	}
	for _, x := range samples {
		// A thread does an operation in 10 ms, or later on a busy machine.
		if len(x.PerThread) != 6 || slices.Min(x.PerThread) == 0 || x.OK > 60 || x.Done < x.OK || x.Sent.LWTs != 2*x.Done || x.Parts[0].TotalCount() != x.OK {
			t.Errorf("%+v", x)
		}
		if !x.Load.Known {
			t.Errorf("the processor time of %+v is not known", x)
		}
	}
	pids := map[int]bool{os.Getpid(): true}
	for i, raw := range s.imported {
		var knows [2]int
		if err := json.Unmarshal(raw, &knows); err != nil || knows[0] != i+1 || pids[knows[1]] {
			t.Errorf("process %d knows %s, %v", i+1, raw, err)
		}
		pids[knows[1]] = true
		if err := syscall.Kill(knows[1], 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d still runs: %v", i+1, err)
		}
	}
	if len(s.imported) != 3 {
		t.Errorf("%d processes were looked at", len(s.imported))
	}
}

// TestProcessGoesWrong: a window that a process does not measure as it should is an error
// that says why, and no smaller sample. Without what every process knows nothing is judged.
func TestProcessGoesWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how     string
		limit   time.Duration
		want    []string // in the problem of round 1
		samples int      // one of them fails, or all after it do
		audited bool
	}{
		{how: "dies", want: []string{"process 2 ended by itself: exit status 3", "panic: on purpose"}},
		{how: "hangs", limit: 5 * time.Second, want: []string{`process 2 did not answer "prepared" within 5s`, "jointArm).Window"}},
		{how: "talks nonsense", want: []string{`process 2 gave no answer but "all is well`}},
		{how: "is killed in the window", want: []string{"process 2 ended by itself: SIGKILL"}},
		{how: "measures another round", want: []string{"process 2 gave a sample of X/3x2, round 2, with 2 threads"}},
		{how: "leaves a thread out", want: []string{"process 2 gave a sample of X/3x2, round 1, with 1 threads"}},
		{how: "fails", want: []string{"process 2: fails on purpose"}, samples: 4, audited: true},
		{how: "fails in the end", want: []string{"process 2: fails on purpose"}, samples: 4, audited: true},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			s, r, err := measureJoint(t, c.how, c.limit)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(r.samples("X/3x2")); n != c.samples {
				t.Errorf("%d samples, want %d", n, c.samples)
			}
			if n := len(r.samples("A")); n != 5 {
				t.Errorf("%d samples of the arm in this process", n)
			}
			all := strings.Join(r.Problems, "\n")
			at := slices.IndexFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, "X/3x2, round 1: ") })
			for _, want := range c.want {
				if at < 0 || !strings.Contains(r.Problems[at], want) {
					t.Errorf("problems\n%s\nwant one with %q", all, want)
				}
			}
			if (s.imported != nil) != c.audited || strings.Contains(all, "could not be looked at: process 2") == c.audited {
				t.Errorf("looked at: %v; problems\n%s", s.imported != nil, all)
			}
		})
	}
}

func TestProcessCannotOpen(t *testing.T) {
	t.Parallel()
	if _, _, err := measureJoint(t, "cannot open", 0); err == nil || !strings.Contains(err.Error(), "process 2: fails on purpose") {
		t.Errorf("%v", err)
	}
}

func TestProcessCannotClose(t *testing.T) {
	t.Parallel()
	_, r, err := measureJoint(t, "cannot close", 0)
	if err != nil || !slices.Equal(r.Problems, []string{"X/3x2: process 2: fails on purpose"}) {
		t.Errorf("%v, problems %q", err, r.Problems)
	}
}

func TestNobodyToLaunch(t *testing.T) {
	t.Parallel()
	if _, err := Measure(t.Context(), newJoint("well"), &Env{}, NewProgress(nil)); err == nil || !strings.Contains(err.Error(), "nothing tells how to start") {
		t.Errorf("%v", err)
	}
}

// TestAgentAlone: an agent ends when nobody is there, and refuses what is no order.
func TestAgentAlone(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        "no configuration came",
		"x":                       "no configuration came",
		"{}":                      "no configuration came",
		`{"process":1}`:           "",
		`{"process":1}{"do":"x"}`: `no such order: "x"`,
		`{"process":1}{"do":"window","arm":"A"}{"do":"close","arm":"A"}`:   "",
		`{"process":2}{"do":"window","arm":"X/3x2","round":2}{"do":"end"}`: "",
		`{"process":9}{"do":"window","arm":"X/3x2"}`:                       "",
	} {
		var out strings.Builder
		err := serve(t.Context(), strings.NewReader(in), &out, func(_ context.Context, cfg AgentConfig) (Joint, *Env, func(), error) {
			return newJoint("well"), &Env{}, func() {}, nil
		})
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	// The benchmark goes away while a window is measured.
	in, theirs := io.Pipe()
	heard, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(t.Context(), in, out, func(context.Context, AgentConfig) (Joint, *Env, func(), error) {
			return newJoint("well"), &Env{}, func() {}, nil
		})
		out.Close()
	}()
	go func() {
		fmt.Fprintln(theirs, `{"process":1}{"do":"window","arm":"X/3x2","round":2,"length_ns":100000000}`)
	}()
	answers := json.NewDecoder(heard)
	for _, want := range []string{stepReady, stepPrepared, stepSample} {
		var x answer
		if err := answers.Decode(&x); err != nil || x.Step != want || (x.Error != "") != (want == stepSample) {
			t.Errorf("%+v, %v, want %s", x, err, want)
		}
		if want == stepPrepared {
			theirs.Close()
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// sampleOf is a sample of operations that took so many ms, a thread each.
func sampleOf(ms ...int) Sample {
	s := newTally(Arm{Threads: len(ms), Parts: []string{"half"}}, time.Now(), time.Now()).sample
	s.Arm, s.Round, s.Seconds = "x", 3, 2
	for i, n := range ms {
		d := time.Duration(n) * time.Millisecond
		s.OK++
		s.PerThread[i]++
		s.record(d, []time.Duration{d / 2})
	}
	return s
}

func TestMergeSamples(t *testing.T) {
	t.Parallel()
	a, b := sampleOf(10, 20), sampleOf(40)
	a.Fail, a.Unknown, a.Waiting, a.Oldest, a.Done, a.SinkLWTs, a.Ended = 1, 2, 3, time.Second, 4, 5, 6
	b.Fail, b.Unknown, b.Waiting, b.Oldest, b.Done, b.SinkLWTs, b.Ended = 10, 20, 30, time.Minute, 40, 50, 60
	a.Sent, b.Sent = Traffic{1, 2, 3, 4, 5}, Traffic{10, 20, 30, 40, 50}
	b.Error, b.Load = "one error", load{BenchLoad: reports.BenchLoad{Own: 1}}
	// As it goes over the wire.
	var parts []Sample
	for _, s := range []Sample{a, b} {
		line, err := lineOf(s)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		var back sampleLine
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		got, err := back.sample()
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, got)
	}
	got, err := mergeSamples(parts)
	if err != nil {
		t.Fatal(err)
	}
	us := func(percent float64) int64 { return got.Latency.ValueAtQuantile(percent) / 1000 }
	if us(1) != 10 || us(50) != 20 || us(100) != 40 || got.Latency.TotalCount() != 3 || got.Parts[0].ValueAtQuantile(100)/1000 != 20 {
		t.Errorf("latencies of %d ms, %d ms, %d ms", us(1), us(50), us(100))
	}
	got.Latency, got.Parts = nil, nil
	want := Sample{
		Arm: "x", Round: 3, Seconds: 2, OK: 3, Fail: 11, Unknown: 22, PerThread: []int64{1, 1, 1}, Waiting: 33, Oldest: time.Minute,
		Sent: Traffic{11, 22, 33, 44, 55}, Done: 44, SinkLWTs: 55, Ended: 66, Error: "one error",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	other := sampleOf(1)
	other.Round = 4
	if _, err := mergeSamples([]Sample{a, other}); err == nil || !strings.Contains(err.Error(), "process 2 measured x, round 4") {
		t.Errorf("samples of two rounds: %v", err)
	}
	short := sampleOf(1)
	short.OK++
	if _, err := mergeSamples([]Sample{a, short}); err == nil {
		t.Error("a latency is missing")
	}
}

func TestNoSample(t *testing.T) {
	t.Parallel()
	for _, l := range []*sampleLine{nil, {}, {Latency: "x"}, {Sample: Sample{OK: 1}, Latency: mustLine(t, sampleOf()).Latency}} {
		if _, err := l.sample(); err == nil {
			t.Errorf("%+v is a sample", l)
		}
	}
}

func mustLine(t *testing.T, s Sample) *sampleLine {
	t.Helper()
	l, err := lineOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParts(t *testing.T) {
	t.Parallel()
	a := Arm{Threads: 10, Processes: 4}
	var got [][2]int
	for p := range a.Processes {
		first, n := a.part(p + 1)
		got = append(got, [2]int{first, n})
	}
	if want := [][2]int{{0, 2}, {2, 3}, {5, 2}, {7, 3}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// late is company that says so when it is too late.
type late struct{}

func (late) Start(context.Context) (time.Time, error) { return time.Now().Add(-time.Second), nil }
func (late) End(context.Context) error                { return nil }

func TestTooLateToStart(t *testing.T) {
	t.Parallel()
	w := Window{Arm: Arm{ID: "x", Threads: 1}, Length: time.Second, Company: late{}}
	op := &timed{takes: always(time.Millisecond), end: func(int64) End { return End{Outcome: store.OK} }}
	if _, err := w.Loop(t.Context(), op); err == nil || !strings.Contains(err.Error(), "too late when to start") || op.begun.Load() > 0 {
		t.Errorf("%v after %d operations", err, op.begun.Load())
	}
}
