package enginetest

import (
	"errors"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// appliedStep is a change of a schedule in the store, and what the schedule is from
// then on.
type appliedStep struct {
	at       time.Time
	kind     engine.StepKind
	trigger  string
	has      bool
	body     string // of the definition
	disabled bool
}

// during returns what a schedule was at any time in [from, to].
func during(steps []appliedStep, from, to time.Time) (out []appliedStep) {
	var last appliedStep
	for _, s := range steps {
		if s.at.After(to) {
			break
		}
		if !s.at.Before(from) {
			out = append(out, s)
		} else {
			last = s
		}
	}
	return append([]appliedStep{last}, out...)
}

var verbSteps = map[engine.Verb]engine.StepKind{engine.PutSchedule: engine.StepPut, engine.RemoveSchedule: engine.StepRemove,
	engine.EnableSchedule: engine.StepEnable, engine.DisableSchedule: engine.StepDisable, engine.TriggerSchedule: engine.StepTrigger}

// judgeTold compares what operators of a schedule were told with what was done.
func (w *World) judgeTold(s *simSchedule, steps []appliedStep) {
	maybe := map[string]int{}
	name := func(verb engine.StepKind, trigger string) string { return string(verb) + " " + trigger }
	for _, told := range s.told {
		kind := verbSteps[told.cmd.Verb]
		if told.outcome != store.Fail && !told.duplicate {
			maybe[name(kind, told.cmd.Trigger)]++
		}
		meanwhile := during(steps, told.begun, told.returned)
		done := slices.ContainsFunc(meanwhile[1:], func(a appliedStep) bool { return a.kind == kind && a.trigger == told.cmd.Trigger })
		was := func(f func(appliedStep) bool) bool { return slices.ContainsFunc(meanwhile, f) }
		right := true
		switch {
		case errors.Is(told.err, engine.ErrUnknownSchedule):
			right = was(func(a appliedStep) bool { return !a.has })
		case told.outcome != store.OK:
		case !told.duplicate:
			right = done
		case told.cmd.Verb == engine.PutSchedule:
			right = was(func(a appliedStep) bool { return a.has && a.body == w.bodyOf(*told.cmd.Definition) })
		case told.cmd.Verb == engine.TriggerSchedule:
			right = slices.ContainsFunc(steps, func(a appliedStep) bool {
				return a.kind == kind && a.trigger == told.cmd.Trigger && !a.at.After(told.returned)
			})
		default:
			right = was(func(a appliedStep) bool { return a.has && a.disabled == (told.cmd.Verb == engine.DisableSchedule) })
		}
		if !right {
			w.violate("told", "schedule %s: %s %s: told %s, duplicate %v, %v; it was %+v", s.key, told.cmd.Verb, told.cmd.Trigger,
				told.outcome, told.duplicate, told.err, meanwhile)
		}
	}
	for _, a := range steps {
		n := name(a.kind, a.trigger)
		if a.kind == engine.StepFire || a.kind == engine.StepOver {
			continue
		}
		if maybe[n]--; maybe[n] < 0 {
			w.violate("told", "schedule %s: %s was done more often than anybody may have asked for", s.key, n)
		}
	}
}

func (w *World) bodyOf(d schedule.Definition) string {
	s, err := schedule.New(d, w.cfg.shards)
	if err != nil {
		return err.Error()
	}
	body, _ := s.Encode()
	return string(body)
}

// stepsOf are the changes of a schedule.
func (t *truth) stepsOf(key string) []appliedStep {
	return t.steps[string(job.ScheduleID("q", key, t.w.cfg.shards))]
}
