package runlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fencepost/core/job"
	"fencepost/core/store"
)

// mostTries is how often a row is sent: one that the store never takes must not stand
// in the way of the others.
const mostTries = 5

// mostError is how many bytes of an error are kept.
const mostError = 500

// mostAtOnce is how many rows go into one request.
const mostAtOnce = 100

func shortened(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for len(s) > mostError {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}

// write writes what waits, a request for each partition and so many rows, until one
// fails. It reports whether all was written; what was not waits again.
func (l *Log) write(ctx context.Context) bool {
	parts := l.parts()
	for i, part := range parts {
		if err := l.put(ctx, part); err != nil {
			l.failed(part, slices.Concat(parts[i+1:]...), err)
			return false
		}
		l.mu.Lock()
		l.stats.Written += int64(len(part))
		l.kept -= len(part)
		l.mu.Unlock()
	}
	return true
}

// parts takes what waits, by partition.
func (l *Log) parts() (parts [][]waitingRow) {
	l.mu.Lock()
	rows := l.rows
	l.rows = nil
	l.mu.Unlock()
	slices.SortStableFunc(rows, func(a, b waitingRow) int {
		return cmp.Or(cmp.Compare(a.day.Shard.Queue, b.day.Shard.Queue), cmp.Compare(a.day.Shard.Shard, b.day.Shard.Shard), cmp.Compare(a.day.Day, b.day.Day))
	})
	for len(rows) > 0 {
		n := 1
		for n < min(len(rows), mostAtOnce) && rows[n].day == rows[0].day {
			n++
		}
		parts, rows = append(parts, rows[:n]), rows[n:]
	}
	return parts
}

// failed takes the end of a request, and what was not sent because of it.
func (l *Log) failed(part, rest []waitingRow, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := 0
	for _, w := range part {
		if w.tries++; w.tries < mostTries {
			rest = append(rest, w)
		} else {
			dropped++
		}
	}
	l.rows = append(rest, l.rows...)
	if dropped > 0 {
		l.kept -= dropped
		l.drop(dropped, err)
	}
}

func (l *Log) put(ctx context.Context, part []waitingRow) error {
	rows := make([]store.RunRow, len(part))
	for i, w := range part {
		rows[i] = w.row
	}
	ctx, stop := l.timeout(ctx)
	defer stop()
	return l.o.Store.PutRuns(ctx, part[0].day, rows)
}

var errTimeout = errors.New("runlog: no answer in time")

func (l *Log) timeout(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := l.o.Clock.AfterFunc(l.o.Timeout, func() { cancel(errTimeout) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// MostDays is how many days RunsOf looks through: rows are forgotten after two weeks.
const MostDays = 15

// RunsOf returns the runs of a job that ended from one instant to another, on at most
// MostDays days, by run. The error is a *job.InvalidError, or the store's.
func RunsOf(ctx context.Context, s store.Runs, queue string, id job.ID, from, to time.Time) ([]store.RunRow, error) {
	shard, err := id.Shard()
	if err != nil {
		return nil, err
	}
	first, last := store.DayOf(from), store.DayOf(to)
	if last < first || last-first >= MostDays {
		return nil, &job.InvalidError{Field: "days", Reason: fmt.Sprintf("from %s to %s: want 1 to %d days, as no row is older", from.UTC().Format(time.DateOnly), to.UTC().Format(time.DateOnly), MostDays)}
	}
	var out []store.RunRow
	for day := first; day <= last; day++ {
		rows, err := s.RunsOf(ctx, store.RunsDay{Shard: store.ShardID{Queue: queue, Shard: shard}, Day: day}, string(id))
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	slices.SortStableFunc(out, func(a, b store.RunRow) int { return cmp.Compare(a.Run, b.Run) })
	return out, nil
}
