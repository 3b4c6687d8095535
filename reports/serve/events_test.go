package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
)

// patience is for what comes at once unless something is broken.
const patience = 20 * time.Second

// message is one server-sent event.
type message struct{ id, event, data string }

// listener reads a stream of events.
type listener struct {
	t    *testing.T
	body io.Closer
	in   *bufio.Reader
	code int
}

// listen opens a stream; last is the Last-Event-ID, "" for none.
func listen(t *testing.T, url, last string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(t, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	w, err := http.DefaultClient.Do(r)
	must(t, err)
	t.Cleanup(func() { w.Body.Close() })
	if w.StatusCode == http.StatusOK && w.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("a stream of %s", w.Header.Get("Content-Type"))
	}
	return &listener{t, w.Body, bufio.NewReader(w.Body), w.StatusCode}
}

// next is the next message; one without an event ends the stream.
func (l *listener) next() (m message) {
	l.t.Helper()
	for {
		line, err := l.in.ReadString('\n')
		if err == io.EOF {
			return message{}
		}
		must(l.t, err)
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "id":
			m.id = value
		case "event":
			m.event = value
		case "data":
			m.data = value
		case "":
			if m.event != "" {
				return m
			}
		}
	}
}

// upTo reads until the event with the number.
func (l *listener) upTo(seq int64) (out []message) {
	l.t.Helper()
	for {
		m := l.next()
		if m.event == "" {
			l.t.Fatalf("the stream ends before event %d, after %v", seq, out)
		}
		out = append(out, m)
		if m.id == strconv.FormatInt(seq, 10) {
			return out
		}
	}
}

// serving serves on loopback, as it will be, until the test ends.
func serving(t *testing.T, runs string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := New(Options{Runs: runs, Stop: ctx})
	must(t, err)
	srv := httptest.NewServer(s)
	t.Cleanup(func() { cancel(); http.DefaultClient.CloseIdleConnections(); srv.Close() })
	return srv.URL, cancel
}

// last is the number of the last event that is written.
func last(t *testing.T, dir string) int64 {
	t.Helper()
	all, err := progress.Read(filepath.Join(dir, rundir.ProgressFile), 0)
	must(t, err)
	return all[len(all)-1].Seq
}

// A stream has all events from the first, those to come as they come, under the run's
// own numbers, and says when nothing follows.
func TestStream(t *testing.T) {
	runs := t.TempDir()
	log, dir := goesOn(t, runs, "a")
	halfWay(log)
	url, _ := serving(t, runs)
	l := listen(t, url+"/events/a", "")
	n := last(t, dir)
	for i, m := range l.upTo(n) {
		if m.id != strconv.Itoa(i+1) {
			t.Errorf("event %d has the id %q", i+1, m.id)
		}
		var e progress.Event
		must(t, json.Unmarshal([]byte(m.data), &e))
		if string(e.Kind) != m.event || strconv.FormatInt(e.Seq, 10) != m.id {
			t.Errorf("%+v is sent as %+v", e, m)
		}
	}
	log.Problem("two\nlines: \"quoted\"")
	if m := l.next(); m.event != "problem" || !strings.Contains(m.data, `two\nlines`) {
		t.Errorf("then came %+v", m)
	}
	log.Emit(progress.Event{Kind: progress.KindEnd})
	must(t, log.Close())
	l.upTo(n + 2)
	if m := l.next(); m.event != "over" || m.id != "" || m.data != `""` {
		t.Errorf("at the end came %+v", m)
	}
	if m := l.next(); m.event != "" {
		t.Errorf("after the end came %+v", m)
	}
}

// Whoever lost the connection gets what follows the last event it has, and nothing twice.
func TestReplay(t *testing.T) {
	runs := t.TempDir()
	log, dir := goesOn(t, runs, "a")
	halfWay(log)
	n := last(t, dir)
	url, _ := serving(t, runs)
	for _, c := range []struct {
		query, header string
		want          int64 // the first
	}{{"", "3", 4}, {"?after=5", "", 6}, {"?after=2", "4", 5}, {"", "0", 1}} {
		l := listen(t, url+"/events/a"+c.query, c.header)
		got := l.upTo(n)
		if got[0].id != strconv.FormatInt(c.want, 10) || int64(len(got)) != n-c.want+1 {
			t.Errorf("after %q, Last-Event-ID %q: %d events from %s, want from %d", c.query, c.header, len(got), got[0].id, c.want)
		}
		l.body.Close()
	}
	for _, bad := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		if l := listen(t, url+"/events/a", bad); l.code != http.StatusBadRequest {
			t.Errorf("Last-Event-ID %q: %d", bad, l.code)
		}
	}
	log.Emit(progress.Event{Kind: progress.KindEnd})
	must(t, log.Close())
	if l := listen(t, url+"/events/a", strconv.FormatInt(n, 10)); l.upTo(n + 1)[0].event != "end" {
		t.Error("the end is not replayed")
	}
	if l := listen(t, url+"/events/a", strconv.FormatInt(n+1, 10)); l.code != http.StatusNoContent {
		t.Errorf("who has all is answered %d: its browser would ask for ever", l.code)
	}
	if l := listen(t, url+"/events/none", ""); l.code != http.StatusNotFound {
		t.Errorf("no such run: %d", l.code)
	}
}

// A line that is being written is sent when it is whole.
func TestStreamHalfWrittenLine(t *testing.T) {
	runs := t.TempDir()
	_, dir := goesOn(t, runs, "a")
	url, _ := serving(t, runs)
	l := listen(t, url+"/events/a", "")
	l.upTo(1)
	f, err := os.OpenFile(filepath.Join(dir, rundir.ProgressFile), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(`{"seq":2,"at":"","t":1,"kind":"problem","te`)
	must(t, err)
	late := listen(t, url+"/events/a", "") // begins where half a line is there
	late.upTo(1)
	_, err = f.WriteString("xt\":\"slow\"}\n")
	must(t, err)
	for _, l := range []*listener{l, late} {
		if m := l.next(); m.id != "2" || !strings.Contains(m.data, "slow") {
			t.Errorf("got %+v", m)
		}
	}
}

// A run whose process dies says nothing any more, and the stream says that.
func TestStreamOfBrokenOff(t *testing.T) {
	runs := t.TempDir()
	log, dir := goesOn(t, runs, "a")
	url, _ := serving(t, runs)
	l := listen(t, url+"/events/a", "")
	l.upTo(last(t, dir))
	must(t, log.Close())
	if m := l.next(); m.event != "over" || !strings.Contains(m.data, "ended without saying") {
		t.Errorf("got %+v", m)
	}
}

// The end of the server ends its streams, which would never be idle.
func TestStop(t *testing.T) {
	runs := t.TempDir()
	log, dir := goesOn(t, runs, "a")
	halfWay(log)
	url, stop := serving(t, runs)
	run, list := listen(t, url+"/events/a", ""), listen(t, url+"/events", "")
	run.upTo(last(t, dir))
	if m := list.next(); m.event != "list" {
		t.Fatalf("got %+v", m)
	}
	stop()
	if m := run.next(); m.event != "" {
		t.Errorf("the run's stream goes on with %+v", m)
	}
	if m := list.next(); m.event != "" {
		t.Errorf("the list's stream goes on with %+v", m)
	}
}

// The list says that it has changed, once for each change, and not while only rates do.
func TestListStream(t *testing.T) {
	runs := t.TempDir()
	makeRun(t, runs, spec{name: "a"})
	url, _ := serving(t, runs)
	l := listen(t, url+"/events", "")
	first := l.next()
	log, _ := goesOn(t, runs, "b")
	second := l.next()
	if first.event != "list" || second.event != "list" || first.data == second.data {
		t.Errorf("%+v, %+v", first, second)
	}
	log.Emit(progress.Event{Kind: progress.KindRates, Rates: &progress.Rates{Cycles: 1}})
	log.Emit(progress.Event{Kind: progress.KindPhase, Phase: "before"})
	if m := l.next(); m.event != "list" || m.data == second.data {
		t.Errorf("after the phase came %+v", m)
	}
}
