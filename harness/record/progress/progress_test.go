package progress

import (
	"context"
	"errors"
	"fencepost/harness/record/history"
	"fencepost/internal/terminal"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func begun(t *testing.T, show func(Event)) (*Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	l := New(show)
	if err := l.Begin(path, Run{Name: "r", Scenario: "steady"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

func TestFileAndViewSeeTheSameEvents(t *testing.T) {
	t.Parallel()
	var shown []Event
	l, path := begun(t, func(e Event) { shown = append(shown, e) })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				l.Emit(Event{Kind: KindRates, Rates: &Rates{Phase: "fault"}})
			}
		})
	}
	wg.Wait()
	l.Problem("a <b> %d", 7)
	l.Emit(Event{Kind: KindEnd})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path, 0)
	if err != nil || len(read) != 103 || len(shown) != 103 {
		t.Fatalf("read %d, shown %d events, want 103: %v", len(read), len(shown), err)
	}
	for i, e := range read {
		if e.Seq != int64(i+1) || shown[i].Seq != e.Seq || shown[i].Kind != e.Kind || i > 0 && e.T < read[i-1].T {
			t.Fatalf("event %d is %+v, shown as %+v", i, e, shown[i])
		}
	}
	if e := read[101]; e.Text != "a <b> 7" || read[100].Rates.Phase != "fault" || read[0].Run.Scenario != "steady" || !read[102].Last() {
		t.Errorf("events came back as %+v", e)
	}
	if after, err := Read(path, 101); err != nil || len(after) != 2 || after[0].Seq != 102 {
		t.Errorf("after 101: %+v, %v", after, err)
	}
}

func TestEventsOutsideARunAreShownOnly(t *testing.T) {
	t.Parallel()
	var shown []Event
	l := New(func(e Event) { shown = append(shown, e) })
	l.Step("no cluster yet")
	if err := l.Close(); err != nil || len(shown) != 1 || shown[0].Seq != 0 || shown[0].At == "" {
		t.Errorf("shown %+v, %v", shown, err)
	}
}

func TestBeginSaysThatThereIsNoPlace(t *testing.T) {
	t.Parallel()
	if err := New(nil).Begin(filepath.Join(t.TempDir(), "none", "x"), Run{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

func TestWhatCannotBeWrittenIsSaid(t *testing.T) {
	t.Parallel()
	n := 0
	l, _ := begun(t, func(Event) { n++ })
	l.file.Close() // as a full disk would
	l.Step("lost")
	if err := l.Close(); err == nil || n != 2 {
		t.Errorf("shown %d events, error %v", n, err)
	}
}

func TestHalfALineIsLeftForLater(t *testing.T) {
	t.Parallel()
	l, path := begun(t, nil)
	if _, err := l.file.WriteString(`{"seq":2,"kind":"st`); err != nil {
		t.Fatal(err)
	}
	if es, err := Read(path, 0); err != nil || len(es) != 1 {
		t.Fatalf("with half a line: %+v, %v", es, err)
	}
	if _, err := l.file.WriteString("ep\",\"text\":\"x\"}\n"); err != nil {
		t.Fatal(err)
	}
	if es, err := Read(path, 1); err != nil || len(es) != 1 || es[0].Text != "x" {
		t.Fatalf("with the whole line: %+v, %v", es, err)
	}
}

func TestReadNamesWhatIsMalformed(t *testing.T) {
	t.Parallel()
	l, path := begun(t, nil)
	if _, err := l.file.WriteString("no event\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 0); err == nil || !strings.Contains(err.Error(), path+":2:") {
		t.Errorf("error %v", err)
	}
}

// follow follows in the background, and tells each event.
func follow(ctx context.Context, path string, after int64) (<-chan Event, <-chan error) {
	events, done := make(chan Event, 100), make(chan error, 1)
	go func() {
		done <- Follow(ctx, path, after, func(e Event) error {
			events <- e
			return nil
		})
		close(events)
	}()
	return events, done
}

func TestFollowSeesEventsAsTheyHappenUntilTheLast(t *testing.T) {
	t.Parallel()
	l, path := begun(t, nil)
	events, done := follow(t.Context(), path, 0)
	if e := <-events; e.Kind != KindRun {
		t.Fatalf("first %+v", e)
	}
	l.Step("one")
	if e := <-events; e.Text != "one" {
		t.Fatalf("then %+v", e)
	}
	late, lateDone := follow(t.Context(), path, 2)
	l.Emit(Event{Kind: KindEnd}) // the file stays open: its last event is what ends it
	if e := <-late; e.Seq != 3 {
		t.Errorf("after 2 comes %+v", e)
	}
	if err := errors.Join(<-done, <-lateDone); err != nil {
		t.Error(err)
	}
}

func TestFollowTellsAnAbandonedRun(t *testing.T) {
	t.Parallel()
	l, path := begun(t, nil)
	l.Step("one")
	events, done := follow(t.Context(), path, 0)
	<-events
	<-events
	if err := l.Close(); err != nil { // as the kernel does for a process that was killed
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrAbandoned) {
		t.Errorf("error %v", err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, path := begun(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	events, done := follow(ctx, path, 0)
	<-events
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := Follow(t.Context(), path+".not", 0, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// story is a run in a few events.
var story = []Event{
	Step("cluster: local"),
	{Seq: 1, Kind: KindRun, Run: &Run{Scenario: "partition", Seed: 7, System: "core", Contention: "high", About: "A cut."}},
	{Seq: 2, T: 0.5, Kind: KindPhase, Phase: "fault"},
	{Seq: 3, T: 1.5, Kind: KindRates, Rates: &Rates{Phase: "fault", Cycles: 12, PerSecond: 12}},
	{Seq: 4, T: 2, Kind: KindFault, Fault: &history.Fault{ID: "f1", Name: "partition", Action: history.ActionInject, Targets: []string{"n1", "n2"}, Trigger: "at 1s"}},
	{Seq: 5, T: 2.1, Kind: KindFault, Fault: &history.Fault{ID: "f1", Name: "partition", Action: history.ActionEvidence, Text: "no byte passed"}},
	{Seq: 6, T: 2.5, Kind: KindRates, Rates: &Rates{Phase: "fault", Cycles: 13, PerSecond: 1, Active: []string{"partition n1,n2"}}},
	{Seq: 7, T: 3, Kind: KindViolation, Violation: &Violation{Property: "P3", Text: "token 5 after 6", File: "history/w1.1.jsonl", Line: 9}},
	{Seq: 8, T: 6.5, Kind: KindRates, Rates: &Rates{Phase: "fault", Cycles: 20, PerSecond: 2, Detail: "nearly there"}},
	{Seq: 9, T: 7, Kind: KindProblem, Text: "a worker died"},
	{Seq: 10, T: 8, Kind: KindChecking},
	{Kind: KindResult, Result: &Result{N: 2, Total: 3, Name: "steady high seed 1", Verdict: "FAIL", Fired: []string{"P3"}, Took: 61, Left: 90, Dir: "runs/x", File: "results/x.json"}},
}

func told(s terminal.Style) string {
	var out strings.Builder
	text := NewText(&out, s)
	for _, e := range story {
		text.Show(e)
	}
	fmt.Fprintln(text, "the end")
	return out.String()
}

func TestPlainText(t *testing.T) {
	t.Parallel()
	want := `cluster: local
scenario partition, seed 7, system core, contention high
  A cut.
   0.5s  fault   
   2.0s     f1 inject  partition n1,n2 (at 1s)
   2.1s     f1 NOT PROVEN: no byte passed
   3.0s  VIOLATION so far  P3: token 5 after 6
   3.0s     history/w1.1.jsonl:9
   6.5s  fault       20 cycles     2/s  0 leases lost  0 refused  0 unknown  nearly there
   7.0s  !  a worker died
checking …
[2/3] steady high seed 1  FAIL  1m1s  by P3  (about 2m0s left)
  runs/x is kept; stored as results/x.json
the end
`
	if got := told(terminal.Style{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextOnATerminal(t *testing.T) {
	t.Parallel()
	got := told(terminal.Style{Live: true, Color: true})
	for _, want := range []string{
		"\x1b[31mNOT PROVEN\x1b[0m", "\x1b[31mVIOLATION so far  P3: token 5 after 6\x1b[0m\n", "[2/3] steady high seed 1  \x1b[31mFAIL\x1b[0m",
		// The live line stands alone until something else is shown, and is cut.
		"12 cycles    12/s  0 leases lost  0 refused  0 unknown\r\x1b[2K   2.0s     f1 inject",
		"  […\r\x1b[2K", "n…\r\x1b[2K   7.0s  \x1b[33m!  a worker died\x1b[0m\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if lines := told(terminal.Style{Live: true}); strings.Contains(lines, "\x1b[3") {
		t.Errorf("colours in %q", lines)
	}
}

func TestJSONIsOneEventALine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := JSON(&out)
	for _, e := range story {
		show(e)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(story) || !strings.Contains(lines[7], `"violation":{"property":"P3"`) || strings.Contains(lines[0], `"at":""`) {
		t.Errorf("%q", lines)
	}
}
