package past

import (
	"fmt"

	"fencepost/harness/record/history"
)

// beginOf is from when on the nominal times of a form count that is put at an instant.
func beginOf(f *history.Schedule, wall int64) int64 {
	switch {
	case kindOf(f) == kindAt:
		return min(wall, f.AtMS) // past: its misfire policy says what becomes of it
	case kindOf(f) == kindCron:
		return max(wall, f.AtMS)
	}
	return wall
}

// once says whether the schedule has one nominal time.
func (s *Schedule) once() bool { return kindOf(s.spec) == kindNow || kindOf(s.spec) == kindAt }

// judgeOutside: what has one nominal time fires once, and no other schedule fires before its first
// instant, or after its last. It reports whether one does.
func (r *Replay) judgeOutside(s *Schedule, w *Write, fired []Occurrence) bool {
	for _, o := range fired {
		f := s.spec
		switch {
		case o.Trigger != "":
			continue
		case s.once() && s.Jobs[o] != nil:
			s.Wrong = append(s.Wrong, ScheduleFault{Again, w, s.by, o}) // firedOne says so
		case !s.once() && (o.Nominal < f.AtMS || f.UntilMS != 0 && o.Nominal >= f.UntilMS):
			s.Wrong = append(s.Wrong, ScheduleFault{Outside, w, s.by, o})
			r.badSchedule(s, w, "fires its %s, but it %s", o.noun(), boundsText(f))
		default:
			continue
		}
		return true
	}
	return false
}

// boundsText says when a form begins and ends.
func boundsText(f *history.Schedule) string {
	switch {
	case f.UntilMS == 0:
		return fmt.Sprintf("begins at %d", f.AtMS)
	case f.AtMS == 0:
		return fmt.Sprintf("ends before %d", f.UntilMS)
	}
	return fmt.Sprintf("begins at %d and ends before %d", f.AtMS, f.UntilMS)
}
