package checker

import "fencepost/harness/record/history"

// witness is what the harness itself read on the links of workers, beside what workers say
// of themselves.
type witness struct {
	reads map[string]bool             // what it reads, by the key of its note
	gaps  map[string][]*history.Event // what of it cannot be read
	sent  []*history.Event            // statement notes of the links
	said  []*history.Event            // and of the workers
	hits  []*history.Event            // clients at points before requests
}

func (w *witness) note(e *history.Event) {
	if history.Life(e.Proc) != history.Harness {
		return
	}
	if w.reads == nil {
		w.reads, w.gaps = map[string]bool{}, map[string][]*history.Event{}
	}
	if e.Error == "" {
		w.reads[e.Key] = true
	} else {
		w.gaps[e.Key] = append(w.gaps[e.Key], e)
	}
}

func (w *witness) statement(e *history.Event) {
	if history.Life(e.Proc) == history.Harness && e.Key != "" {
		w.sent = append(w.sent, e)
	} else {
		w.said = append(w.said, e)
	}
}

// sender is the worker that a statement note is of.
func sender(e *history.Event) string {
	if history.Life(e.Proc) == history.Harness && e.Key != "" {
		return e.Key
	}
	return history.Worker(e.Proc)
}
