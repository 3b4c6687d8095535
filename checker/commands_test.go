package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// answer is how a command ends.
type answer struct {
	outcome history.Type // "": never
	result  string       // of one that is ok
	told    string       // of one that failed
}

var (
	doneSo    = answer{outcome: history.OK, result: past.ResultApplied}
	nothingTo = answer{outcome: history.OK, result: past.ResultDuplicate}
	nobodySay = answer{outcome: history.Unknown}
	neverSaid = answer{}
)

func toldIt(state string) answer { return answer{outcome: history.Fail, told: state} }

// command inserts a command on a job, or on a shard (id is then the shard), by a client of a life.
func (e *edit) command(life, shard, id, do string, from, to int64, a answer) {
	n := e.nextID(life)
	inv := history.Event{TS: from, Proc: fmt.Sprintf("%s/k%d", life, n), ID: n, Type: history.Invoke, Op: history.OpCommand, Key: id,
		Details: &history.Details{Command: &history.Command{Queue: "jobs", Shard: shard, Do: do}}, File: life + ".jsonl", Line: 1 << 20}
	if a.outcome == "" {
		e.insert(inv)
		return
	}
	end := inv
	end.TS, end.Type, end.Result, end.Details = to, a.outcome, a.result, nil
	if a.outcome != history.OK {
		end.Error = "not done"
	}
	if a.told != "" {
		end.Details = &history.Details{Told: a.told}
	}
	e.insert(inv, end)
}

// on inserts a command on a place's job.
func (p jobPlace) on(do string, from, to int64, a answer) {
	p.x.command(history.Life(p.inv().Proc), p.j.Shard, p.j.ID, do, from, to, a)
}

// withCommands is step for histories with commands.
func withCommands(do string, fits func(jobPlace) bool, change func(jobPlace)) func(*edit) bool {
	return func(e *edit) bool {
		p, ok := e.jobs().step(do, fits)
		if ok {
			change(p)
		}
		return ok
	}
}

// given is the command of a place, which was told that it was done.
func (p jobPlace) given() *past.Op {
	for _, o := range p.j.Commands {
		if o.Outcome == history.OK && o.Invoke.Command().Do == p.c().Do {
			return o
		}
	}
	return nil
}

// onlyOne fits a change of which there is one in the job, by a command that was told so.
func onlyOne(p jobPlace) bool { return p.given() != nil && len(p.j.Commands) == 1 }

// after is an instant after a place's batch was answered, before the job's next change can have
// begun.
func (p jobPlace) after() int64 { return p.w().OK().End.TS + 1 }

var commandMutations = []mutation{
	{"cancel acknowledged that no batch does", "P5", nil, withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoCancel, p.inv().TS-2, p.inv().TS-1, doneSo)
	})},
	{"cancel acknowledged before its batch is sent", "P5", nil, withCommands(history.DoCancel, onlyOne, func(p jobPlace) {
		o := p.given()
		o.Invoke.TS, o.End.TS = p.w().Earliest()-2, p.w().Earliest()-1
		p.x.index()
	})},
	{"cancel told as not done, and it was", "P5", nil, withCommands(history.DoCancel, onlyOne, func(p jobPlace) {
		o := p.given()
		o.End.Type, o.End.Result, o.End.Error = history.Fail, "", "not the owner"
	})},
	{"cancel that was given after its batch", "P5", nil, withCommands(history.DoCancel, func(p jobPlace) bool {
		return onlyOne(p) && p.tickAfter() != nil
	}, func(p jobPlace) {
		o := p.given()
		o.Invoke.TS, o.End.TS = p.tickAfter().Main().Invoke.TS+1, p.tickAfter().Main().Invoke.TS+2
		o.End.Type, o.End.Result = history.Unknown, ""
		p.x.index()
	})},
	{"cancel refused by a state that the job was never in", "P5", nil, withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoCancel, p.inv().TS-2, p.inv().TS-1, toldIt(past.StateDLQ))
	})},
	{"cancel refused by a state that came later", "P5", nil, withCommands(history.DoComplete, once, func(p jobPlace) {
		p.on(history.DoCancel, p.w().Earliest()-2, p.w().Earliest()-1, toldIt(past.StateCompleted))
	})},
	{"command told that there is no such job", "P5", nil, withCommands(history.DoComplete, func(p jobPlace) bool {
		return once(p) && p.j.Calls[0].End.TS < p.inv().TS-2
	}, func(p jobPlace) {
		p.on(history.DoRedrive, p.inv().TS-2, p.inv().TS-1, toldIt(history.ToldUnknown))
	})},
	{"job hastened as if it were due that has ended", "P5", nil, withCommands(history.DoComplete, func(p jobPlace) bool {
		return once(p) && p.tickAfter() != nil
	}, func(p jobPlace) {
		at := p.tickAfter().OK().End.TS
		p.on(history.DoHasten, at, at+1, nothingTo)
	})},
	{"redrive that nobody asked for", "P5", nil, withCommands(history.DoRedrive, onlyOne, func(p jobPlace) {
		o := p.given()
		o.Invoke.OwnDetails().Command = &history.Command{Queue: "jobs", Shard: p.j.Shard, Do: history.DoCancel}
		o.End.Type, o.End.Result, o.End.Error = history.Unknown, "", "timeout"
	})},
	{"run acknowledged that no batch does", "P5", nil, withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoRun, p.inv().TS-2, p.inv().TS-1, doneSo)
	})},
	{"job told to run anyway that has ended", "P5", nil, withCommands(history.DoComplete, func(p jobPlace) bool {
		return once(p) && p.tickAfter() != nil
	}, func(p jobPlace) {
		at := p.tickAfter().OK().End.TS
		p.on(history.DoRun, at, at+1, nothingTo)
	})},
	{"dead jobs told to be redriven, of which one never was", "P5", nil, withCommands(history.DoComplete, once, func(p jobPlace) {
		p.redrivenWithOthers(doneSo, history.OK)
	})},
	{"redrive told as not done among those of many", "P5", nil, withCommands(history.DoRedrive, onlyOne, func(p jobPlace) {
		p.amongMany(doneSo, history.Fail)
	})},
	{"pause acknowledged that no batch does", "P5", nil, withCommands(history.DoClaim, func(p jobPlace) bool {
		return len(p.w().Main().Row.Replayed.Pauses) == 0
	}, func(p jobPlace) {
		p.x.command(history.Life(p.inv().Proc), p.j.Shard, p.j.Shard, history.DoPause, p.inv().TS, p.inv().TS+1, doneSo)
	})},
}

// redrivenWithOthers inserts a redrive of all dead jobs of the queue while a place's batch is under way,
// and what it was told of the place's job.
func (p jobPlace) redrivenWithOthers(a answer, of history.Type) {
	p.x.command(history.Life(p.inv().Proc), "", "jobs", history.DoRedriveDead, p.inv().TS-1, p.after(), a)
	for i := range p.x.h.Events {
		if e := &p.x.h.Events[i]; e.Op == history.OpCommand && e.Key == "jobs" && e.Type == history.OK {
			e.Details = &history.Details{Answers: []history.Answered{{Job: p.j.ID, Shard: p.j.Shard, Outcome: string(of)}}}
		}
	}
}

// amongMany has the redrive of a place's job be one of all dead jobs of the queue, which ended so.
func (p jobPlace) amongMany(a answer, of history.Type) {
	o := p.given()
	o.Invoke.Key, o.End.Key = "jobs", "jobs"
	o.Invoke.OwnDetails().Command = &history.Command{Queue: "jobs", Do: history.DoRedriveDead}
	o.End.Type, o.End.Result = a.outcome, a.result
	if a.outcome == history.OK {
		o.End.Details = &history.Details{Answers: []history.Answered{{Job: p.j.ID, Shard: p.j.Shard, Outcome: string(of)}}}
	}
}

// callAgain inserts another enqueue of a place's job, by a key, that was told to be a duplicate;
// the calls that there are get another key.
func (p jobPlace) callAgain(id, before, key string) {
	respec(func(_ jobPlace, j *history.Job) { j.Key = before })(p)
	p.x.ask(p.j, id, past.ResultDuplicate)
	for i := range p.x.h.Events {
		if e := &p.x.h.Events[i]; e.Op == history.OpEnqueue && e.Type == history.Invoke && e.Key == id && strings.HasSuffix(e.Proc, "/e9") {
			spec := *e.Job()
			spec.Key, spec.Resource = key, p.j.Spec.Resource
			e.OwnDetails().Job = &spec
		} else if e.Op == history.OpEnqueue && e.Type == history.OK && e.Key == id && id != p.j.ID { // it need not be anywhere
			e.Type, e.Result, e.Error = history.Unknown, "", "timeout"
		}
	}
}

// inQueue has the enqueue that callAgain inserted be for another queue, whose shard has not taken it.
func (p jobPlace) inQueue(queue string) {
	for i := range p.x.h.Events {
		if e := &p.x.h.Events[i]; e.Op == history.OpEnqueue && strings.HasSuffix(e.Proc, "/e9") {
			if e.Type == history.Invoke {
				spec := *e.Job()
				spec.Queue, spec.Shard, spec.Resource = queue, "shard/"+queue+"/0", "job/"+queue+"/"+e.Key
				e.OwnDetails().Job = &spec
			} else {
				e.Type, e.Result, e.Error = history.Unknown, "", "timeout"
			}
		}
	}
}

// mixtureMutations are about keys, and about runs that take too long.
var mixtureMutations = []mutation{
	{"two keys that have one id", "P5", nil, step(history.DoComplete, once, func(p jobPlace) { p.callAgain(p.j.ID, "w1.1-7", "W1.1-7") })},
	{"one key that has two ids", "P5", nil, step(history.DoComplete, once, func(p jobPlace) { p.callAgain("twin", "w1.1-7", "w1.1-7") })},
	{"a job without a key that is taken for another one", "P5", nil, step(history.DoComplete, once, func(p jobPlace) {
		p.callAgain("twin", "w1.1-7", "")
		for i := range p.x.h.Events {
			if e := &p.x.h.Events[i]; e.Op == history.OpEnqueue && e.Key == "twin" && e.Type == history.Unknown {
				e.Type, e.Result, e.Error = history.OK, past.ResultDuplicate, ""
			}
		}
	})},
	{"one id in two queues", "P5", nil, step(history.DoComplete, once, func(p jobPlace) {
		p.callAgain(p.j.ID, "w1.1-7", "w1.1-7")
		p.inQueue("jobs.2")
	})},
	{"job completed by a run that takes too long", "P5", nil,
		step(history.DoComplete, func(p jobPlace) bool { return p.c().Attempt == 1 }, respec(func(_ jobPlace, j *history.Job) { j.Overruns = true }))},
}

// legalCommands are answers that are right, though only just.
var legalCommands = map[string]func(*edit) bool{
	"all as they were": func(e *edit) bool { return len(e.jobs().a.Jobs.List) > 0 },
	"a cancel without an answer that was never done": withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoCancel, p.inv().TS-2, p.inv().TS-1, nobodySay)
	}),
	"a cancel whose client died": func(e *edit) bool {
		p, ok := e.jobs().step(history.DoClaim, once)
		for _, crash := range e.notes(history.NoteCrash) {
			if ok && crash.Proc != history.Harness {
				e.command(history.Life(crash.Proc), p.j.Shard, p.j.ID, history.DoCancel, crash.TS-1, 0, neverSaid)
				return true
			}
		}
		return false
	},
	"a cancel without an answer that was done": withCommands(history.DoCancel, onlyOne, func(p jobPlace) {
		o := p.given()
		o.End.Type, o.End.Result, o.End.Error = history.Unknown, "", "timeout"
	}),
	"a cancel that comes as the run ends": withCommands(history.DoComplete, once, func(p jobPlace) {
		p.on(history.DoCancel, p.w().Earliest()-1, p.w().Earliest(), toldIt(past.StateCompleted))
	}),
	"a second cancel": withCommands(history.DoCancel, onlyOne, func(p jobPlace) {
		p.on(history.DoCancel, p.w().Earliest()-1, p.after(), toldIt(past.StateCancelled))
	}),
	"two cancels that one batch does": withCommands(history.DoCancel, onlyOne, func(p jobPlace) {
		p.on(history.DoCancel, p.w().Earliest()-1, p.after(), doneSo)
	}),
	"a redrive of a job that is running": withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoRedrive, p.after(), p.after()+1, toldIt(past.StateRunning))
	}),
	"a hastening that comes when the job is due": withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoHasten, p.w().Earliest()-2, p.w().Earliest()-1, nothingTo)
	}),
	"a run of a job that is running": withCommands(history.DoClaim, once, func(p jobPlace) {
		p.on(history.DoRun, p.after(), p.after()+1, nothingTo)
	}),
	"a run that redrives": withCommands(history.DoRedrive, onlyOne, func(p jobPlace) {
		p.given().Invoke.OwnDetails().Command = &history.Command{Queue: "jobs", Shard: p.j.Shard, Do: history.DoRun}
	}),
	"a run of a job that has ended": withCommands(history.DoComplete, once, func(p jobPlace) {
		p.on(history.DoRun, p.w().Earliest()-1, p.after(), toldIt(past.StateCompleted))
	}),
	"a redrive among those of all dead jobs": withCommands(history.DoRedrive, onlyOne, func(p jobPlace) {
		p.amongMany(doneSo, history.OK)
	}),
	"a redrive among those of all dead jobs, without an answer": withCommands(history.DoRedrive, onlyOne, func(p jobPlace) {
		p.amongMany(nobodySay, "")
	}),
	"dead jobs of which one could not be redriven": withCommands(history.DoComplete, once, func(p jobPlace) {
		p.redrivenWithOthers(doneSo, history.Fail)
	}),
	"no such job, as its enqueue is under way": withCommands(history.DoEnqueue, func(p jobPlace) bool {
		return len(p.j.Calls) == 1 && p.i == 0
	}, func(p jobPlace) {
		from := p.j.Calls[0].Invoke.TS
		p.on(history.DoCancel, from+1, from+2, toldIt(history.ToldUnknown))
	}),
	"a key that is used again with another body": step(history.DoComplete, func(p jobPlace) bool {
		return once(p) && len(p.j.Calls) == 1
	}, func(p jobPlace) { p.callAgain(p.j.ID, "w1.1-7", "w1.1-7") }),
	"a job without a key whose enqueue comes again": step(history.DoComplete, func(p jobPlace) bool {
		return once(p) && len(p.j.Calls) == 1
	}, func(p jobPlace) { p.callAgain(p.j.ID, "", "") }),
	"a key that is used in another queue": step(history.DoComplete, func(p jobPlace) bool {
		return once(p) && len(p.j.Calls) == 1
	}, func(p jobPlace) {
		p.callAgain("0-twin", "w1.1-7", "w1.1-7")
		p.inQueue("jobs.2")
	}),
	"a job completed by its second run, whose first takes too long": step(history.DoComplete, func(p jobPlace) bool {
		return p.c().Attempt == 2
	}, respec(func(_ jobPlace, j *history.Job) { j.Overruns = true })),
	"a pause of a shard that is paused": func(e *edit) bool {
		for _, l := range e.jobs().a.Rows {
			if l.Replayed != nil && len(l.Replayed.Switched(true)) > 0 && l.Replayed.Switched(true)[0].OK() != nil {
				end := l.Replayed.Switched(true)[0].OK().End
				e.command(history.Life(end.Proc), l.Name, l.Name, history.DoPause, end.TS+1, end.TS+2, nothingTo)
				return true
			}
		}
		return false
	},
}

// TestCommandsThatAreLegal: what was told and done is right, though only just.
func TestCommandsThatAreLegal(t *testing.T) {
	t.Parallel()
	for name, change := range legalCommands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := 0
			for seed := uint64(0); seed < 40 && done < 3; seed++ {
				e := newEdit(simulate(shortJobs(seed)))
				e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
				if !change(e) {
					continue
				}
				done++
				if r := Check(context.Background(), e.h, Options{}); r.Verdict != Pass {
					t.Errorf("seed %d: %s", seed, r.Verdict)
					logFindings(t, r)
				}
			}
			if done == 0 {
				t.Error("no history has such a command")
			}
		})
	}
}

// arrivals lets the lives of a history note how many jobs came to them, in two notes each: the
// last one counts.
func (e *edit) arrivals(came, dropped int64) {
	var notes []history.Event
	for _, n := range e.notes(history.NoteExit) {
		if n.Proc != history.Harness {
			for _, part := range []history.Arrivals{{Came: came / 2, Dropped: dropped / 2}, {Came: came, Dropped: dropped}} {
				notes = append(notes, history.Event{TS: n.TS - 1, Proc: n.Proc, Type: history.Note, Op: history.NoteArrivals,
					Details: &history.Details{Arrivals: &part}, File: n.File, Line: n.Line})
			}
		}
	}
	e.insert(notes...)
}

// TestArrivals: a run whose workers left out one job in a hundred counts, one with more does not.
func TestArrivals(t *testing.T) {
	t.Parallel()
	for dropped, want := range map[int64]Verdict{0: Pass, 10: Pass, 11: Invalid, 1000: Invalid} {
		e := newEdit(simulate(shortJobs(3)))
		e.arrivals(1000, dropped)
		r := Check(context.Background(), e.h, Options{})
		if r.Verdict != want {
			t.Errorf("%d of 1000 left out: %s: %s", dropped, r.Verdict, r.Summary)
		}
		if says := "jobs that they were to enqueue"; (want == Invalid) != strings.Contains(firstViolation(r, "P14"), says) {
			t.Errorf("%d of 1000 left out: %q", dropped, firstViolation(r, "P14"))
		}
	}
}
