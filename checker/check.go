package checker

import (
	"context"
	"time"

	"fencepost/checker/explain"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// Defaults of Options.
const (
	DefaultSearch = 60 * time.Second
	DefaultLimit  = 10 * time.Minute
	DefaultMemory = 4 << 30
)

// Options tune a check. The zero value is usable.
type Options struct {
	// Dir is the run's directory: visualizations are written below it, and the
	// files named in violations are relative to it. "" writes none.
	Dir string `json:"dir,omitempty"`
	// Search is the CPU time that all Porcupine searches together may take; what
	// only they can judge is unknown if it is not finished then. Default DefaultSearch.
	Search time.Duration `json:"search_ns,omitempty"`
	// Limit is the time that a child process may take in all, reading included
	// (CheckInChild only). Default DefaultLimit.
	Limit time.Duration `json:"limit_ns,omitempty"`
	// Memory is the memory that a child process may use, in bytes (CheckInChild
	// only). Default DefaultMemory; negative: no limit.
	Memory int64 `json:"memory_bytes,omitempty"`
}

func (o Options) withDefaults() Options {
	if o.Search <= 0 {
		o.Search = DefaultSearch
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	return o
}

// Check judges a history. It never panics on a history that the reader accepts;
// a cancelled ctx ends the searches and leaves what they had to find unknown.
func Check(ctx context.Context, h *history.History, o Options) *Result {
	o = o.withDefaults()
	return judge(ctx, property.New(h, false, o.Dir, o.Search))
}

// judge checks a judgement's properties, and tells in words what came of it.
func judge(ctx context.Context, j *property.Judgement) *Result {
	r := j.Check(ctx)
	a := explain.Answer(j, r)
	r.Answer, r.Summary = &a, a.Text()
	r.Millis = j.Millis()
	return r
}
