package checker

import (
	"testing"

	"fencepost/harness/record/history"
)

// TestHits: a client at a point before its request, and what its links carried of that.
func TestHits(t *testing.T) {
	t.Parallel()
	const late = 5 // the id of w1's write
	for name, c := range map[string]struct {
		change  func(*sinkStory)
		hit     history.Hit
		at      int64
		message string
	}{
		"let go, then sent":              {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(2901)}},
		"sent as it was let go":          {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(2900)}},
		"killed there":                   {at: 131, hit: history.Hit{ID: late}, change: func(s *sinkStory) { s.late().result = ""; s.late().uncarried = true }},
		"its links were cut":             {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900)}, change: func(s *sinkStory) { s.late().result = ""; s.late().uncarried = true }},
		"sent before it asked":           {at: 133, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(131)}, message: "w1.1/c1 asked at the point effect-sent of a 2.0 ms after its request had left: the fault came too late"},
		"sent before it asked, killed":   {at: 133, hit: history.Hit{ID: late, Sent: tinyAt(131)}, message: "2.0 ms after its request had left"},
		"sent while it stood there":      {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900), Sent: tinyAt(2899)}, message: "w1.1/c1 stood at the point effect-sent of a, and its request left before it was let go"},
		"sent and never let go":          {at: 131, hit: history.Hit{ID: late, Sent: tinyAt(2899)}, message: "its request left before it was let go"},
		"never sent, and yet an answer":  {at: 131, hit: history.Hit{ID: late, Go: tinyAt(2900)}, message: "says that its effect was answered; its links carried no such request"},
		"nothing was about to be sent":   {at: 131, hit: history.Hit{Go: tinyAt(2900)}, message: "had recorded no operation that was about to be sent"},
		"an operation that nobody knows": {at: 131, hit: history.Hit{ID: 99, Go: tinyAt(2900), Sent: tinyAt(2901)}, message: "had recorded no operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSinkStory()
			if c.change != nil {
				c.change(s)
			}
			h := s.tell()
			c.hit.Proc = "w1.1/c1"
			h.Events = append(h.Events, history.Event{TS: tinyAt(c.at), Proc: history.Harness, Type: history.Note, Op: history.NoteHit, Key: "a", Details: &history.Details{Point: "effect-sent", Hit: &c.hit}, File: "tiny.jsonl", Line: 999})
			var want []string
			if c.message != "" {
				want = []string{"P14"}
			}
			tinyCheck(t, h, c.message, want...)
		})
	}
}
