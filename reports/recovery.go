package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fencepost/reports/measure"
)

// recoveryView is how the run came back from its faults, as the checker found it.
type recoveryView struct {
	Orphans string // in a sentence, "" if there is nothing to tell
	Rows    []recoveryRow
	// Progress is what was got done while faults were in force.
	Progress []progressRow
}

type progressRow struct{ Fault, Cycles, Gap, Most, Which string }

type recoveryRow struct{ ID, Name, First, Slowest, Lock, Locks string }

func (r *run) recovery() recoveryView {
	if r.verdict == nil || r.verdict.Recovery == nil {
		return recoveryView{}
	}
	rec := r.verdict.Recovery
	var v recoveryView
	for _, p := range r.verdict.Progress {
		v.Progress = append(v.Progress, progressRow{p.Fault, fmt.Sprintf("%d of %d", p.Cycles, p.MinCycles), duration(p.GapMS), duration(p.MostMS), cmp.Or(p.Key, "all")})
	}
	if rec.Orphans > 0 {
		v.Orphans = fmt.Sprintf("%d %s ended without a release; %d could be held against the bound of P11.", rec.Orphans, plural(rec.Orphans, "grant", "grants"), rec.Judged)
		if rec.MaxTTL > 0 {
			v.Orphans += fmt.Sprintf(" From the holder’s last write to the takeover: %.2f TTL (p50), %.2f TTL at most.", rec.P50TTL, rec.MaxTTL)
		}
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(rec.NotJudged)) {
			why = append(why, fmt.Sprintf("%d: %s", rec.NotJudged[reason], reason))
		}
		if len(why) > 0 {
			v.Orphans += " Not judged " + strings.Join(why, ", ") + "."
		}
	}
	for _, f := range rec.Faults {
		row := recoveryRow{ID: f.ID, Name: f.Name, First: "none followed", Slowest: "–", Lock: "–", Locks: fmt.Sprint(f.Locks)}
		if f.Locks > 0 {
			row.First, row.Slowest, row.Lock = duration(f.FirstMS), duration(f.SlowestMS), cmp.Or(f.SlowestLock, "–")
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

func duration(ms float64) string {
	return measure.FormatDuration(time.Duration(ms * float64(time.Millisecond)))
}
