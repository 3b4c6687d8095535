package enginetest

import "fencepost/core/engine"

// observerMutants tell their observers something else than they do.
var observerMutants = []Mutant{
	untold("of sweeps", "changes", "", engine.StepSweep),
	untold("what is brought forward", "changes", "", engine.StepHasten),
	untold("of a pause", "paused", "pauses", engine.StepPause),
	untold("what fires", "changes", "schedules", engine.StepFire),
	mistold("of a rescue as a retry", "changes", "", func(c *engine.Change) {
		if c.Kind == engine.StepRescue {
			c.Kind = engine.StepRetry
		}
	}),
	mistold("of the attempt before", "changes", "", func(c *engine.Change) { c.Attempt = max(c.Attempt-1, 0) }),
	mistold("another due time", "changes", "", func(c *engine.Change) { c.Due = min(c.Due, 1) }),
	mistold("of other misses", "schedule", "schedules", func(c *engine.Change) {
		if c.Kind == engine.StepFire {
			c.Missed++
		}
	}),
	{Name: "an observer that is not told the nominal time", Rules: []string{"changes"}, Under: "schedules",
		Plant: liar(func(c *engine.Change) bool { c.Occurrence.Nominal = 0; return true })},
}

func untold(what, rule, under string, kind engine.StepKind) Mutant {
	return Mutant{Name: "an observer that is not told " + what, Rules: []string{rule}, Under: under,
		Plant: liar(func(c *engine.Change) bool { return c.Kind != kind })}
}

func mistold(what, rule, under string, f func(c *engine.Change)) Mutant {
	return Mutant{Name: "an observer that is told " + what, Rules: []string{rule}, Under: under,
		Plant: liar(func(c *engine.Change) bool { f(c); return true })}
}
