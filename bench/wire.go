package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/harness/env/login"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// AgentConfig is the first line that an agent reads. It holds secrets, and so is in no
// argument, environment or file.
type AgentConfig struct {
	// Process is the agent's number, from 1.
	Process int    `json:"process"`
	Seed    uint64 `json:"seed"`
	// Suite is what the benchmark's suite was made from.
	Suite json.RawMessage `json:"suite"`
	Reach Reach           `json:"reach"`
}

// Reach is how another process opens sessions.
type Reach struct {
	// Nodes is where each node is reached, by its IP.
	Nodes          map[string]string `json:"nodes"`
	Port           int               `json:"port"`
	Keyspace       string            `json:"keyspace"`
	ConnectTimeout time.Duration     `json:"connect_timeout_ns,omitempty"`
	Login          *login.Login      `json:"login,omitempty"`
}

// order is a line that an agent reads after its configuration.
type order struct {
	Do     string        `json:"do"`
	Arm    string        `json:"arm,omitempty"`
	Round  int           `json:"round,omitempty"`
	Lead   time.Duration `json:"lead_ns,omitempty"`
	Length time.Duration `json:"length_ns,omitempty"`
	Seed   uint64        `json:"seed,omitempty"`
	// At is the instant of a start by the system's clock, which is the same for all
	// processes of a machine.
	At time.Duration `json:"at_ns,omitempty"`

	ctx context.Context // of a window, in the agent
}

// Orders. A window is asked for, started when everybody is prepared, and ended when nobody
// has an operation under way; or it is aborted, at any time.
const (
	doWindow = "window"
	doStart  = "start"
	doEnd    = "end"
	doAbort  = "abort"
	doClose  = "close"  // an arm
	doExport = "export" // what the audit knows
)

// answer is a line that an agent writes.
type answer struct {
	Step   string          `json:"step"`
	Error  string          `json:"error,omitempty"` // why the step was not done
	Sample *sampleLine     `json:"sample,omitempty"`
	Audit  json.RawMessage `json:"audit,omitempty"`

	nonsense string // the line, if it is no answer
}

// Steps. A window's last is always its sample, or why there is none.
const (
	stepReady    = "ready"
	stepPrepared = "prepared"
	stepEnded    = "ended"
	stepSample   = "sample"
	stepClosed   = "closed"
	stepExported = "exported"
)

// sampleLine is a sample whose histograms are written as reports have them.
type sampleLine struct {
	Sample
	Latency string
	Parts   []string
}

func lineOf(s Sample) (*sampleLine, error) {
	l := &sampleLine{Sample: s}
	var err error
	if l.Latency, err = reports.EncodeHistogram(s.Latency); err != nil {
		return nil, err
	}
	for _, h := range s.Parts {
		part, err := reports.EncodeHistogram(h)
		if err != nil {
			return nil, err
		}
		l.Parts = append(l.Parts, part)
	}
	return l, nil
}

var errNoSample = errors.New("it is not what was asked for")

// sample is the inverse of lineOf.
func (l *sampleLine) sample() (Sample, error) {
	if l == nil {
		return Sample{}, errNoSample
	}
	s := l.Sample
	s.Parts = nil
	for i, encoded := range append([]string{l.Latency}, l.Parts...) {
		h, err := reports.DecodeHistogram(encoded)
		switch {
		case err != nil:
			return s, err
		case h == nil:
			return s, errNoSample
		case i == 0:
			s.Latency = h
		default:
			s.Parts = append(s.Parts, h)
		}
	}
	return s, s.check()
}

// mergeSamples makes one sample of those that the processes of an arm took in the same
// window, in the order of the processes. When it was and who kept the processors busy is left
// to the caller.
func mergeSamples(parts []Sample) (Sample, error) {
	all := Sample{Arm: parts[0].Arm, Round: parts[0].Round, Seconds: parts[0].Seconds, Latency: measure.NewHistogram()}
	for range parts[0].Parts {
		all.Parts = append(all.Parts, measure.NewHistogram())
	}
	for i, s := range parts {
		if s.Arm != all.Arm || s.Round != all.Round || s.Seconds != all.Seconds || len(s.Parts) != len(all.Parts) {
			return Sample{}, fmt.Errorf("%s, round %d: process %d measured %s, round %d, for %v s with %d parts", all.Arm, all.Round, i+1, s.Arm, s.Round, s.Seconds, len(s.Parts))
		}
		all.OK, all.Fail, all.Unknown = all.OK+s.OK, all.Fail+s.Fail, all.Unknown+s.Unknown
		all.PerThread = append(all.PerThread, s.PerThread...)
		all.Waiting, all.Oldest = all.Waiting+s.Waiting, max(all.Oldest, s.Oldest)
		all.Sent, all.Done = all.Sent.Plus(s.Sent), all.Done+s.Done
		all.SinkLWTs, all.Ended = all.SinkLWTs+s.SinkLWTs, all.Ended+s.Ended
		if all.Error == "" {
			all.Error = s.Error
		}
		for k, h := range append([]*hdrhistogram.Histogram{s.Latency}, s.Parts...) {
			into := all.Latency
			if k > 0 {
				into = all.Parts[k-1]
			}
			if err := measure.Merge(into, h); err != nil {
				return Sample{}, fmt.Errorf("%s, round %d: latencies of process %d: %w", all.Arm, all.Round, i+1, err)
			}
		}
	}
	return all, all.check()
}

// part is which of the arm's threads a process has: so many from first on.
func (a Arm) part(process int) (first, n int) {
	from := func(process int) int { return a.Threads * process / a.Processes }
	first = from(process - 1)
	return first, from(process) - first
}
