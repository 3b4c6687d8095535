package scenario

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
)

func checkJobs(s *Spec) error { return within(s.Workload.Jobs.check(), "workload", "jobs") }

func (j *Jobs) check() error {
	part := func(f float64) bool { return f >= 0 && f <= 1 }
	switch {
	case j.Rate <= 0 || j.Rate > 100_000:
		return fmt.Errorf("rate %v: jobs per second, up to 100000", j.Rate)
	case j.Steps < 0 || j.Steps > 100 || j.Slots < 1 || j.MaxAttempts < 1 || j.MaxAttempts > job.MaxAttemptsLimit:
		return fmt.Errorf("steps %d (0 to 100), slots %d (at least 1) and max_attempts %d (1 to %d) are out of range", j.Steps, j.Slots, j.MaxAttempts, job.MaxAttemptsLimit)
	case j.Storm > 0 && j.Ahead > 0:
		return fmt.Errorf("storm %s and ahead %s: jobs are due at once, or spread out", j.Storm.D(), j.Ahead.D())
	case j.Every > 0 && j.Every.D() < schedule.MinEvery || j.Every.D()%time.Millisecond != 0:
		return fmt.Errorf("every %s: at least %s, in whole milliseconds", j.Every.D(), schedule.MinEvery)
	case j.Window.D()%time.Millisecond != 0 || j.Window.D() > schedule.MaxSpan:
		return fmt.Errorf("window %s: at most %s, in whole milliseconds", j.Window.D(), schedule.MaxSpan)
	case j.Sequence < 0 || j.Sequence > job.MaxThen:
		return fmt.Errorf("sequence %d: 0 to %d jobs", j.Sequence, job.MaxThen)
	case !part(j.Flaky) || !part(j.Poison) || j.Flaky+j.Poison > 1:
		return fmt.Errorf("flaky %v and poison %v: parts of the jobs, together at most 1", j.Flaky, j.Poison)
	}
	return nil
}

// ordersSink is the sink of orders: the one in whose transactions the shop's tables
// change too.
const ordersSink = "postgres"

func checkOrders(s *Spec) error {
	if err := checkJobs(s); err != nil {
		return err
	}
	return within(s.Workload.checkOrders(), "workload", "jobs")
}

func (w Workload) checkOrders() error {
	j := w.Jobs
	switch o := j.Orders; {
	case o.Items < 1 || o.Items > 1000 || o.Stock < 1:
		return fmt.Errorf("orders: items %d (1 to 1000) and stock %d (at least 1) are out of range", o.Items, o.Stock)
	case j.Every > 0 || j.Sequence > 0 || j.Storm > 0 || j.Ahead > 0 || j.Flaky > 0 || j.Poison > 0:
		return errors.New("orders: every, sequence, storm, ahead, flaky and poison are of other jobs")
	case w.Sink != ordersSink:
		return fmt.Errorf("orders: the sink %s cannot change the shop's tables with an effect: it must be %s", w.Sink, ordersSink)
	}
	return nil
}

func jobLoad(w Workload) string {
	j := w.Jobs
	out := []string{fmt.Sprintf("%d workers, %v jobs per second, effects per job: %d, ttl %s", w.Workers, j.Rate, j.Steps, w.TTL.D())}
	for _, part := range []struct {
		format string
		of     float64
	}{{"%v of them fail once", j.Flaky}, {"%v of them fail always", j.Poison}} {
		if part.of > 0 {
			out = append(out, fmt.Sprintf(part.format, part.of))
		}
	}
	for _, d := range []struct {
		format string
		of     Duration
	}{{"due up to %s ahead", j.Ahead}, {"all due at the next multiple of %s", j.Storm}, {"a schedule that fires every %s in each shard", j.Every}} {
		if d.of > 0 {
			out = append(out, fmt.Sprintf(d.format, d.of.D()))
		}
	}
	return strings.Join(out, ", ")
}
