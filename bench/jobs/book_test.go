package jobs

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestIDs: an id carries its job's number, belongs to its queue, and is spread evenly.
func TestIDs(t *testing.T) {
	t.Parallel()
	const jobs, shards = 10_000, 16
	b, other := newBook("q", 7, shards), newBook("p", 8, shards)
	var each [shards]int
	for range jobs {
		n, j := b.ask(b.begin)
		other.ask(b.begin)
		if err := j.WithDefaults().Check(shards); err != nil {
			t.Fatal(err)
		}
		if got, ok := b.number(j.ID); !ok || got != n || tagOf(j.ID) != 7 {
			t.Fatalf("job %d has the number %d, %v, and the tag %d", n, got, ok, tagOf(j.ID))
		}
		if _, ok := other.number(j.ID); ok {
			t.Fatalf("%s belongs to two books", j.ID)
		}
		shard, _ := j.ID.Shard()
		each[shard]++
	}
	for n := range jobs - 1 {
		if one, next := rawOf(b.id(n)), rawOf(b.id(n+1)); bytes.Compare(one, next) >= 0 {
			t.Fatalf("job %d has the id %x, and the one after it %x", n, one, next)
		}
	}
	for shard, n := range each {
		if n < jobs/shards*8/10 || n > jobs/shards*12/10 {
			t.Errorf("shard %d has %d of %d jobs", shard, n, jobs)
		}
	}
	for _, id := range []job.ID{"", "3", "3-xyz", b.id(jobs), job.UniqueID([16]byte{1}, shards)} {
		if n, ok := b.number(id); ok {
			t.Errorf("%q has the number %d", id, n)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	run := func(b *book, id job.ID) {
		b.start(id)
		b.finish(id, nil)
	}
	for _, c := range []struct {
		name string
		do   func(b *book, n int, id job.ID)
		want string // part of the only violation; "" for none
	}{
		{"completed once", func(b *book, n int, id job.ID) { b.replied(n, acked); run(b, id); b.end(id) }, ""},
		{"completed before it is acknowledged", func(b *book, n int, id job.ID) { run(b, id); b.end(id); b.replied(n, acked) }, ""},
		{"refused", func(b *book, n int, _ job.ID) { b.replied(n, refused) }, ""},
		{"not answered, not there", func(*book, int, job.ID) {}, ""},
		{"not answered, completed", func(b *book, _ int, id job.ID) { run(b, id); b.end(id) }, ""},
		{"failed and tried again", func(b *book, n int, id job.ID) {
			b.replied(n, acked)
			b.start(id)
			b.finish(id, errors.New("failed"))
			run(b, id)
			b.end(id)
		}, ""},
		{"rescued", func(b *book, n int, id job.ID) { b.replied(n, acked); run(b, id); b.lose(); run(b, id); b.end(id) }, ""},
		{"completed twice", func(b *book, n int, id job.ID) { b.replied(n, acked); run(b, id); b.end(id); b.end(id) }, "was completed 2 times"},
		{"run twice", func(b *book, n int, id job.ID) { b.replied(n, acked); run(b, id); run(b, id); b.end(id) }, "ran 2 times"},
		{"never run", func(b *book, n int, id job.ID) { b.replied(n, acked); b.end(id) }, "completed and never run"},
		{"refused and run", func(b *book, n int, id job.ID) { b.replied(n, refused); run(b, id) }, "was refused for certain"},
		{"nobody's", func(b *book, n int, id job.ID) { b.replied(n, refused); b.end(b.id(99)) }, "nobody enqueued it"},
	} {
		b := newBook("q", 1, 4)
		n, j := b.ask(time.Now())
		c.do(b, n, j.ID)
		f := &findings{queue: "q"}
		b.judge(f)
		got := f.all()
		if c.want == "" && len(got) > 0 {
			t.Errorf("%s: %q", c.name, got)
		}
		if c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want one with %q", c.name, got, c.want)
		}
	}
}

// TestRows: a queue of one shard and two jobs, of which the first is completed.
func TestRows(t *testing.T) {
	t.Parallel()
	type rows struct {
		first, second job.State // "" for none
		inbox         bool      // the second is in the inbox
		pending, dlq  int
		ended         int
		owner         string
		noHeader      bool
	}
	for _, c := range []struct {
		name  string
		reply reply // to the enqueue of the second
		rows  rows
		want  string // part of the only violation; "" for none
	}{
		{"refused", refused, rows{first: job.Completed, ended: 1}, ""},
		{"waits", acked, rows{first: job.Completed, second: job.Pending, pending: 1, ended: 1}, ""},
		{"in the inbox", acked, rows{first: job.Completed, inbox: true, ended: 1}, ""},
		{"not answered, not there", none, rows{first: job.Completed, ended: 1}, ""},
		{"not answered, waits", none, rows{first: job.Completed, second: job.Pending, pending: 1, ended: 1}, ""},
		{"not answered, in the inbox", none, rows{first: job.Completed, inbox: true, ended: 1}, ""},
		{"waits, and still in the inbox", acked, rows{first: job.Completed, second: job.Pending, pending: 1, inbox: true, ended: 1}, ""},
		{"refused, and in the inbox", refused, rows{first: job.Completed, inbox: true, ended: 1}, `says "pending"`},
		{"lost", acked, rows{first: job.Completed, ended: 1}, "row is gone"},
		{"waits where nobody looks", acked, rows{first: job.Completed, second: job.Pending, ended: 2}, "there must be 1, and 0 more"},
		{"dead", acked, rows{first: job.Completed, second: job.DLQ, ended: 1, dlq: 1}, `says "dlq"`},
		{"completed unseen", acked, rows{first: job.Completed, second: job.Completed, ended: 2}, "reported completed 0 times"},
		{"refused, waits", refused, rows{first: job.Completed, second: job.Pending, pending: 1, ended: 1}, `says "pending"`},
		{"completed one gone", refused, rows{}, "row is gone"},
		{"completed one pending", refused, rows{first: job.Pending, pending: 1}, `says "pending"`},
		{"one more pending", refused, rows{first: job.Completed, pending: 1, ended: 0}, "there must be 0, and 0 more"},
		{"not in the index", refused, rows{first: job.Completed}, "0 ended ones"},
		{"still owned", refused, rows{first: job.Completed, ended: 1, owner: "x"}, "is still owned by x"},
		{"no header", refused, rows{first: job.Completed, noHeader: true}, "has no header"},
	} {
		b := newBook("q", 1, 1)
		var ids []job.ID
		for range 2 {
			_, j := b.ask(b.begin)
			ids = append(ids, j.ID)
		}
		b.replied(0, acked)
		b.start(ids[0])
		b.finish(ids[0], nil)
		b.end(ids[0])
		b.replied(1, c.reply)
		r := shardRows{header: &store.Header{Owner: c.rows.owner}, counts: map[store.Kind]int{
			store.KindPending: c.rows.pending, store.KindDLQ: c.rows.dlq, store.KindEnded: c.rows.ended,
		}}
		for i, state := range []job.State{c.rows.first, c.rows.second} {
			if state != "" {
				r.counts[store.KindJob]++
				attempt := 0
				if state == job.Completed {
					attempt = 1
				}
				r.jobs = append(r.jobs, jobRow{ids[i], state, attempt})
			}
		}
		if c.rows.inbox {
			r.inbox = append(r.inbox, store.InboxRow{ID: string(ids[1])})
		}
		if c.rows.noHeader {
			r.header = nil
		}
		f := &findings{queue: "q"}
		b.shard(0, r, b.doubts(), f)
		b.unseen(f)
		found := strings.Join(f.all(), "\n")
		if c.want == "" && found != "" || !strings.Contains(found, c.want) {
			t.Errorf("%s: %q, want %q", c.name, found, c.want)
		}
	}
}

func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	f := &findings{queue: "q"}
	for range maxFound + 3 {
		f.add("x")
	}
	if got := f.all(); len(got) != maxFound+1 || got[maxFound] != "q: 3 more" {
		t.Errorf("%q", got)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	b := newBook("q", 1, 4)
	n, j := b.ask(b.begin)
	done := b.await(n)
	b.start(j.ID)
	b.finish(j.ID, nil)
	select {
	case <-done:
		t.Error("a job that has run counts as completed")
	default:
	}
	b.end(j.ID)
	<-done
	parts := b.parts(n)
	if len(parts) != len(partNames) {
		t.Errorf("parts %v of %v", parts, partNames)
	}
	if asked, ended := b.counts(); asked != 1 || ended != 1 {
		t.Errorf("%d asked, %d ended", asked, ended)
	}
}
