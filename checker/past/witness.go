package past

import "fencepost/harness/record/history"

// Witness is what the harness itself read on the links of workers, beside what workers say
// of themselves.
type Witness struct {
	Reads map[string]bool             // what it reads, by the key of its note
	Gaps  map[string][]*history.Event // what of it cannot be read
	Sent  []*history.Event            // statement notes of the links
	Said  []*history.Event            // and of the workers
	Hits  []*history.Event            // clients at points before requests
}

func (w *Witness) note(e *history.Event) {
	if history.Life(e.Proc) != history.Harness {
		return
	}
	if w.Reads == nil {
		w.Reads, w.Gaps = map[string]bool{}, map[string][]*history.Event{}
	}
	if e.Error == "" {
		w.Reads[e.Key] = true
	} else {
		w.Gaps[e.Key] = append(w.Gaps[e.Key], e)
	}
}

func (w *Witness) statement(e *history.Event) {
	if history.Life(e.Proc) == history.Harness && e.Key != "" {
		w.Sent = append(w.Sent, e)
	} else {
		w.Said = append(w.Said, e)
	}
}

// Sender is the worker that a statement note is of.
func Sender(e *history.Event) string {
	if history.Life(e.Proc) == history.Harness && e.Key != "" {
		return e.Key
	}
	return history.Worker(e.Proc)
}
