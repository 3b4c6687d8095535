package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// overloadStory is a run with a load beyond its capacity from 10 s to 21 s, between two times in
// which it is saturated. Rates are jobs that are done a second, times in ms.
type overloadStory struct {
	before, under, after int64
	wait                 int64 // from a request to the run
	refusals             int64 // a second under overload
	took                 int64 // to refuse
	elsewhere            bool  // refused by a process that does not own the shard
	change               func(*lockedRun)
}

func (o overloadStory) tell(t *testing.T) *history.History {
	y := newLockedRun()
	token := int64(1000)
	jobs := func(from, to, rate int64) {
		for at := from; rate > 0 && at < to; at += 1000 / rate {
			if y.idle(at) {
				continue
			}
			token++
			id := fmt.Sprint("j", token)
			y.enqueue(at, id, history.OK)
			y.whole(at+o.wait, fmt.Sprintf("w2.1/r%d", token), id, token, 1)
		}
	}
	y.fault("f1", "saturate", 1000, 9000, "w1", "w2")
	jobs(1000, 9000, o.before)
	y.fault("f2", "overload", 10_000, 21_000, "w1", "w2")
	for i := range y.h.Events {
		if f := y.h.Events[i].Fault(); f != nil && f.ID == "f2" {
			f.Times = 3
		}
	}
	y.acquire(9900, "w2.1/owner", "held", 900)
	if o.change != nil {
		o.change(y)
	}
	jobs(10_000, 21_000, o.under)
	shard := "held"
	if o.elsewhere {
		shard = "j1001"
	}
	for at := int64(10_000); o.refusals > 0 && at < 21_000; at += 1000 / o.refusals {
		y.refuse(at, o.took, shard)
	}
	y.fault("f3", "saturate", 32_000, 40_000, "w1", "w2")
	jobs(32_000, 40_000, o.after)
	return y.done(41_000)
}

// refuse is a request that is refused.
func (y *lockedRun) refuse(at, took int64, shard string) {
	y.op(at, at+took, "w2.1/owner", history.Fail, history.Event{Op: history.OpEnqueue, Key: fmt.Sprint("no", at), Details: &history.Details{Job: &history.Job{
		Queue: "q", Shard: lockOf(shard), Kind: "k", Resource: resOf("no"), Steps: []string{"s1"}, MaxAttempts: 3,
	}}}, history.Event{Error: "busy"})
}

// command is a command on a job of w2's that ends so.
func (y *lockedRun) command(at, took int64, ends history.Type, told string) {
	end := history.Event{Error: "no"}
	if told != "" {
		end.Details = &history.Details{Told: told}
	}
	if ends == history.OK {
		end = history.Event{Result: "applied"}
	}
	y.op(at, at+took, "w2.1/owner", ends, history.Event{Op: history.OpCommand, Key: "j1001", Details: &history.Details{Command: &history.Command{
		Queue: "q", Shard: lockOf("held"), Do: history.DoCancel,
	}}}, end)
}

// idle says that a pause-worker is in force then.
func (y *lockedRun) idle(at int64) bool {
	for _, f := range y.h.Faults() {
		if f.Fault.Name == "pause-worker" && at*1e6+1e9 >= f.From && at*1e6+1e9 < f.To {
			return true
		}
	}
	return false
}

// TestViolationsComeFirst: what is beyond its threshold says more than what could not be measured.
func TestViolationsComeFirst(t *testing.T) {
	t.Parallel()
	h := overloadStory{before: 10, under: 8, after: 10, wait: 100, refusals: 25, took: 20}.tell(t)
	for i := range h.Events {
		if x := h.Events[i].Expect(); x != nil {
			x.Thresholds = []history.Threshold{{Overload: history.OverloadCommands, MaxMS: 15}, {Overload: history.OverloadGoodput, Least: 0.9}}
		}
	}
	a := property.New(h, false, "", time.Second)
	i := slices.IndexFunc(property.All, func(x property.Check) bool { return x.ID == "P15" })
	p := a.Judge(context.Background(), property.All[i])
	if p.Status != StatusFail || len(p.Violations) != 2 || !strings.Contains(p.Violations[0].Message, "0.8") || !strings.Contains(p.Violations[1].Message, "could not be measured") {
		t.Errorf("%s: %+v", p.Status, p.Violations)
	}
}

func TestOverloadThresholds(t *testing.T) {
	t.Parallel()
	sound := overloadStory{before: 10, under: 10, after: 10, wait: 100, refusals: 25, took: 20}
	but := func(change func(*overloadStory)) overloadStory {
		o := sound
		change(&o)
		return o
	}
	goodput := history.Threshold{Overload: history.OverloadGoodput, Least: 0.9}
	most := func(of string, ms int64) history.Threshold { return history.Threshold{Overload: of, MaxMS: ms} }
	paused := func(y *lockedRun) { y.fault("f4", "pause-worker", 12_000, 14_000, "w1") }
	slowly := func(worker string) overloadStory { // four refusals by w2, the owner, while a worker is paused
		return but(func(o *overloadStory) {
			o.refusals = 40
			o.change = func(y *lockedRun) {
				y.fault("f4", "pause-worker", 12_000, 14_000, worker)
				for at := range int64(4) {
					y.refuse(13_000+10*at, 300, "held")
				}
			}
		})
	}
	batches := func(before, under, after int64) overloadStory { // how long they take
		return but(func(o *overloadStory) {
			o.change = func(y *lockedRun) {
				for from, took := range map[int64]int64{3000: before, 12_000: under, 34_000: after} {
					for at := from; at < from+5000; at += 700 {
						y.op(at, at+took, "w2.1/owner", history.OK, history.Event{Op: history.OpTick, Key: lockOf("held")}, history.Event{})
					}
				}
			}
		})
	}
	lastRefused := func(o overloadStory) overloadStory { // after 3501 ms
		before := o.change
		o.change = func(y *lockedRun) { before(y); y.refuse(24_000, 501, "held") }
		return o
	}
	commands := func(more func(y *lockedRun)) overloadStory { // two hundred, of 15 ms
		return but(func(o *overloadStory) {
			o.change = func(y *lockedRun) {
				for n := range int64(100) {
					y.command(13_000+50*n, 15, history.OK, "")
					y.command(13_000+50*n+25, 15, history.Fail, "completed")
				}
				more(y)
			}
		})
	}
	after := func(n int64, took int64, ends history.Type) func(y *lockedRun) {
		return func(y *lockedRun) {
			for i := range n {
				y.command(18_500+50*i, took, ends, "")
			}
		}
	}
	for name, c := range map[string]struct {
		o      overloadStory
		th     history.Threshold
		status Status
		says   string
	}{
		"goodput":                              {sound, goodput, StatusPass, "with 35 jobs a second for a capacity of 10"},
		"less goodput":                         {but(func(o *overloadStory) { o.under = 8 }), goodput, StatusFail, "at least 0.9 are wanted"},
		"none under a pause":                   {but(func(o *overloadStory) { o.change = paused }), goodput, StatusPass, ""},
		"less after a pause":                   {but(func(o *overloadStory) { o.change, o.under = paused, 8 }), goodput, StatusFail, ""},
		"two capacities":                       {but(func(o *overloadStory) { o.after = 7 }), goodput, StatusInvalid, "10 jobs a second before and 7 afterwards: that is not one capacity"},
		"two capacities, less than each":       {but(func(o *overloadStory) { o.after, o.under = 7, 6 }), goodput, StatusFail, "of the smaller capacity"},
		"two capacities, nothing at all":       {but(func(o *overloadStory) { o.after, o.under, o.refusals = 7, 0, 40 }), goodput, StatusFail, "of the smaller capacity"},
		"two capacities, enough of one":        {but(func(o *overloadStory) { o.after, o.under = 7, 7 }), goodput, StatusInvalid, "that is not one capacity"},
		"two capacities, not overloaded":       {but(func(o *overloadStory) { o.after, o.under, o.refusals = 7, 6, 15 }), goodput, StatusInvalid, "that is not one capacity"},
		"two capacities, refused far too late": {but(func(o *overloadStory) { o.after, o.took = 7, 81 }), most(history.OverloadRefused, 20), StatusFail, "too much for either capacity"},
		"two capacities, refused too late":     {but(func(o *overloadStory) { o.after, o.took = 7, 80 }), most(history.OverloadRefused, 20), StatusInvalid, "that is not one capacity"},
		"two capacities, enough for neither":   {but(func(o *overloadStory) { o.after, o.took = 18, 81 }), most(history.OverloadRefused, 20), StatusInvalid, "that is not one capacity"},
		"nearly one capacity":                  {but(func(o *overloadStory) { o.after = 8 }), goodput, StatusPass, ""},
		"no such load":                         {but(func(o *overloadStory) { o.refusals = 15 }), goodput, StatusInvalid, "25 jobs a second came, and 3 times the capacity is 30"},
		"nearly such a load":                   {but(func(o *overloadStory) { o.refusals = 17 }), goodput, StatusPass, ""},
		"no load at all":                       {but(func(o *overloadStory) { o.before = 0 }), goodput, StatusInvalid, "no job ended while"},
		"refused at once":                      {sound, most(history.OverloadRefused, 20), StatusPass, "of 225 refusals by the owners"},
		"refused later":                        {sound, most(history.OverloadRefused, 19), StatusFail, "20.0 ms"},
		"refused later, by slow batches":       {batches(250, 250, 300), most(history.OverloadRefused, 10), StatusPass, "at most 20.0 ms (2.00 times 10 ms"},
		"refused later than slow batches":      {batches(250, 250, 250), most(history.OverloadRefused, 9), StatusFail, "at most 18.0 ms"},
		"too slow batches":                     {batches(251, 251, 300), most(history.OverloadRefused, 19), StatusInvalid, "batches of shards took 251 ms"},
		"too slow batches, less goodput":       {but(func(o *overloadStory) { *o = batches(300, 300, 300); o.under = 8 }), goodput, StatusFail, ""},
		"refused later, by usual batches":      {batches(125, 125, 125), most(history.OverloadRefused, 19), StatusFail, "at most 19.0 ms are"},
		"slow batches before only":             {batches(250, 125, 125), most(history.OverloadRefused, 19), StatusFail, "at most 19.0 ms are"},
		"slow batches but for the overload":    {batches(250, 125, 250), most(history.OverloadRefused, 19), StatusFail, "at most 19.0 ms are"},
		"slow batches but for the end":         {batches(250, 250, 125), most(history.OverloadRefused, 19), StatusFail, "at most 19.0 ms are"},
		"normal too late, by too slow batches": {lastRefused(batches(300, 300, 300)), most(history.OverloadNormal, 3500), StatusInvalid, "batches of shards took 300 ms"},
		"normal too late, by slow batches":     {lastRefused(batches(250, 250, 250)), most(history.OverloadNormal, 3500), StatusFail, "3501.0 ms"},
		"refused elsewhere":                    {but(func(o *overloadStory) { o.elsewhere = true }), most(history.OverloadRefused, 100), StatusInvalid, "0 refusals by the owners"},
		"refused later, under another's pause": {slowly("w1"), most(history.OverloadRefused, 299), StatusFail, "300.0 ms"},
		"refused later, under its own pause":   {slowly("w2"), most(history.OverloadRefused, 20), StatusPass, "20.0 ms"},
		"too little left of it": {but(func(o *overloadStory) {
			o.change = func(y *lockedRun) { y.fault("f4", "pause-worker", 12_000, 15_500, "w1") }
		}), goodput, StatusInvalid, "other faults leave 2500.0 ms of the overload"},
		"less goodput without a node": {but(func(o *overloadStory) {
			o.under = 8
			o.change = func(y *lockedRun) { y.fault("f4", "kill-node", 12_000, 20_500, "n1") }
		}), goodput, StatusFail, ""},
		"started in time": {sound, most(history.OverloadAccepted, 120), StatusPass, "120.0 ms, of 110 starts"},
		"started late":    {sound, most(history.OverloadAccepted, 119), StatusFail, "120.0 ms"},
		"normal at once":  {sound, most(history.OverloadNormal, 1000), StatusPass, "0.0 ms"},
		"normal later": {but(func(o *overloadStory) {
			o.change = func(y *lockedRun) { y.refuse(24_000, 500, "held") }
		}), most(history.OverloadNormal, 3500), StatusPass, "3500.0 ms"},
		"normal too late": {but(func(o *overloadStory) {
			o.change = func(y *lockedRun) { y.refuse(24_000, 501, "held") }
		}), most(history.OverloadNormal, 3500), StatusFail, "3501.0 ms"},
		"late long afterwards": {but(func(o *overloadStory) {
			o.change = func(y *lockedRun) {
				y.enqueue(20_990, "late", history.OK)
				y.whole(23_000, "w2.1/late", "late", 5000, 1)
			}
		}), most(history.OverloadNormal, 2000), StatusFail, "2020.0 ms"},
		"commands":                 {commands(func(*lockedRun) {}), most(history.OverloadCommands, 15), StatusPass, "15.0 ms, of 200 commands on jobs, of which 0 failed"},
		"few slow commands":        {commands(after(10, 300, history.OK)), most(history.OverloadCommands, 15), StatusPass, ""},
		"slow commands":            {commands(after(11, 300, history.OK)), most(history.OverloadCommands, 299), StatusFail, "300.0 ms"},
		"few commands fail":        {commands(after(10, 1, history.Fail)), most(history.OverloadCommands, 15), StatusPass, "10 failed"},
		"commands fail":            {commands(after(11, 1, history.Fail)), most(history.OverloadCommands, 1000), StatusFail, "longer than anybody waited"},
		"commands of no known end": {commands(after(11, 1, history.Unknown)), most(history.OverloadCommands, 1000), StatusFail, "11 failed"},
		"no commands":              {sound, most(history.OverloadCommands, 15), StatusInvalid, "0 commands on jobs"},
		"slow commands under a pause of their own": {commands(func(y *lockedRun) {
			y.fault("f4", "pause-worker", 18_400, 19_000, "w2")
			after(11, 300, history.OK)(y)
		}), most(history.OverloadCommands, 15), StatusPass, "of 200"},
		"watched too shortly": {sound, most(history.OverloadNormal, 12_000), StatusInvalid, "only 11000.0 ms passed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := c.o.tell(t)
			for i := range h.Events {
				if x := h.Events[i].Expect(); x != nil {
					x.Thresholds = []history.Threshold{c.th}
				}
			}
			a := property.New(h, false, "", time.Second)
			i := slices.IndexFunc(property.All, func(x property.Check) bool { return x.ID == "P15" })
			if p := a.Judge(context.Background(), property.All[i]); p.Status != c.status || !strings.Contains(p.Detail, c.says) {
				t.Errorf("%s, %s; want %s with %q", p.Status, p.Detail, c.status, c.says)
			}
		})
	}
}
