package serve

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// Bounds of a comparison.
const (
	leastRuns = 2
	mostRuns  = 6
	// maxJSON and maxCSV are the sizes up to which a run's file is read for it.
	maxJSON = 64 << 20
	maxCSV  = 512 << 20
)

// side is one run of a comparison, with what its files say.
type side struct {
	*Entry
	verdict checker.Result  // zero: not checked
	report  reports.Report  // zero: no report.json
	rates   map[string]rate // by phase
	notes   []string        // what could not be read
}

// rate is the cycles of a phase over its time.
type rate struct {
	cycles  int
	seconds float64
}

func (r rate) perSecond() float64 {
	if r.seconds <= 0 {
		return 0
	}
	return float64(r.cycles) / r.seconds
}

// load reads what is compared. What is missing is noted, and shown as not known.
func (s *Server) load(e *Entry) side {
	d := side{Entry: e, rates: map[string]rate{}}
	note := func(err error) {
		if err != nil && !(missing(err) && e.State == Running) {
			d.notes = append(d.notes, e.local(err))
		}
	}
	note(s.readJSON(e, rundir.VerdictFile, &d.verdict))
	note(s.readJSON(e, reports.JSONFile, &d.report))
	b, err := s.read(e, reports.TimelineFile, maxJSON)
	if err == nil {
		err = d.readTimeline(b)
	}
	note(err)
	return d
}

func (s *Server) readJSON(e *Entry, name string, to any) error {
	b, err := s.read(e, name, maxJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readTimeline sums the buckets of timeline.csv by phase. A bucket counts for the
// phase in which it begins.
func (d *side) readTimeline(b []byte) error {
	return eachRow(bytes.NewReader(b), reports.TimelineFile, []string{"phase", "seconds", "cycles"}, func(v []string) error {
		seconds, err1 := strconv.ParseFloat(v[1], 64)
		cycles, err2 := strconv.Atoi(v[2])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		r := d.rates[v[0]]
		d.rates[v[0]] = rate{r.cycles + cycles, r.seconds + seconds}
		return nil
	})
}

// latencies reads one operation's latencies of a phase ("" and measure.AllPhases:
// of the whole run) from operations.csv, those that ended ok.
func (s *Server) latencies(e *Entry, op, phase string) (*hdrhistogram.Histogram, error) {
	f, err := s.open(e, reports.OperationsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := measure.NewHistogram()
	err = eachRow(io.LimitReader(f, maxCSV), reports.OperationsFile, []string{"op", "phase", "outcome", "latency_ms", "proc"},
		func(v []string) error {
			if v[0] != op || v[2] != string(history.OK) || v[3] == "" || phase != measure.AllPhases && v[1] != phase || !measure.Client(v[4]) {
				return nil
			}
			ms, err := strconv.ParseFloat(v[3], 64)
			if err != nil {
				return err
			}
			return measure.Record(h, milliseconds(ms))
		})
	return h, err
}

// eachRow calls f with the named columns of each line.
func eachRow(r io.Reader, name string, columns []string, f func([]string) error) error {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	at := make([]int, len(columns))
	for i, c := range columns {
		if at[i] = slices.Index(head, c); at[i] < 0 {
			return fmt.Errorf("%s has no column %q: make the report again", name, c)
		}
	}
	v := make([]string, len(columns))
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i := range at {
			v[i] = row[at[i]]
		}
		if err := f(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// property returns one of the verdict's, nil without it.
func (d side) property(id string) *checker.Property {
	return find(d.verdict.Properties, func(p checker.Property) bool { return p.ID == id })
}

func (d side) fault(id string) *reports.ReportFault {
	return find(d.report.Faults, func(f reports.ReportFault) bool { return f.ID == id })
}

// recovery is what followed a fault's heal, nil if nothing is known of it.
func (d side) recovery(id string) *checker.FaultRecovery {
	if d.verdict.Recovery == nil {
		return nil
	}
	return find(d.verdict.Recovery.Faults, func(f checker.FaultRecovery) bool { return f.ID == id && f.Locks > 0 })
}

func find[T any](all []T, is func(T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

// setting is something that a run was told or ran on.
type setting struct{ Name, Value string }

// told are the settings that a run was given; "" where it has no such thing.
func (e *Entry) told() []setting {
	i := e.Info
	num := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	dur := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return measure.FormatDuration(d)
	}
	rate := ""
	if i.JobRate > 0 {
		rate = fmt.Sprintf("%g jobs/s", i.JobRate)
	}
	return []setting{
		{"scenario", i.Scenario}, {"system", i.System}, {"sink", i.Sink}, {"seed", strconv.FormatUint(i.Seed, 10)},
		{"contention", i.Contention}, {"workload", i.Workload}, {"cluster", i.Cluster},
		{"workers", num(i.Workers)}, {"clients a worker", num(i.Clients)}, {"locks", num(i.Locks)}, {"shards", num(i.Shards)},
		{"jobs enqueued", rate},
		{"lease TTL", dur(i.TTL)}, {"hold time", dur(i.Hold)}, {"replay of", i.ReplayOf}, {"interrupted", i.Interrupted},
	}
}

// settings are what a run was told and, by name, what it ran on.
func (e *Entry) settings() []setting {
	var on []setting
	for _, m := range []map[string]string{e.Info.Versions, e.Info.Machine} {
		for k, v := range m {
			on = append(on, setting{k, v})
		}
	}
	slices.SortFunc(on, func(a, b setting) int { return cmp.Compare(a.Name+a.Value, b.Name+b.Value) })
	return append(e.told(), on...)
}
