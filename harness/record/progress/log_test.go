package progress

import (
	"context"
	"errors"
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
