package property

import (
	"fmt"

	"fencepost/harness/record/history"
)

// mostDropped is the part of a run's jobs that its workers may leave out, as too many enqueues
// were under way. With more the load was not what the scenario says.
const mostDropped = 0.01

// dropped says that workers left out too many jobs, "" if not, and shows the notes that say so.
func (a *Judgement) dropped() (why string, notes []*history.Event) {
	came, left := int64(0), int64(0)
	for _, e := range a.Arrivals {
		n := e.Arrivals()
		came, left = came+n.Came, left+n.Dropped
		if n.Dropped > 0 {
			notes = append(notes, e)
		}
	}
	if float64(left) <= mostDropped*float64(came) {
		return "", nil
	}
	return fmt.Sprintf("workers left out %d of the %d jobs that they were to enqueue, as too many enqueues were under way: at most %g %% may be",
		left, came, 100*mostDropped), notes
}

// arrivals: the load was less than the scenario says.
func (x *Inquiry) arrivals() {
	why, notes := x.dropped()
	if why == "" {
		return
	}
	s := x.suspect("arrivals-dropped", shown, len(notes), "%s", why)
	for _, e := range notes {
		s.showAt("", e, x.mistake(e, "%s left out %d of %d jobs", e.Proc, e.Arrivals().Dropped, e.Arrivals().Came))
	}
}
