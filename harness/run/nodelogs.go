package run

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"fencepost/harness/env/host"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
)

// maxNodeLog is how much of the end of a node's log goes into a run's directory:
// a cluster that is kept up writes one log for all its runs.
const maxNodeLog = 1 << 20

// keepNodeLogs copies the ends of the nodes' logs beside the workers'.
func (r *runner) keepNodeLogs() error {
	for _, n := range r.opt.Cluster.Nodes() {
		if n.LogFile() == "" {
			continue // a cluster that is not ours
		}
		if err := copyEnd(n.LogFile(), filepath.Join(r.dir, rundir.LogDir, n.Name()+".log")); err != nil {
			return fmt.Errorf("log of node %s: %w", n.Name(), err)
		}
	}
	return nil
}

func copyEnd(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if _, err := in.Seek(max(0, info.Size()-maxNodeLog), io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// noteHost records how busy the machine was in the phase that ends.
func (r *runner) noteHost() {
	if r.meter == nil {
		r.meter = host.Start()
		return
	}
	h := r.meter.Take()
	h.Phase, h.Cold = r.current, r.current == history.PhaseWarmup && r.cold
	r.note(history.Event{Op: history.NoteHost, Details: &history.Details{Host: &h}})
	if h.LagP99MS > history.MaxLagMS {
		r.progress.problem("host too busy in phase %s: the harness's own timer was late by %.0f ms (p99), %.0f %% of the processors' time was stolen", h.Phase, h.LagP99MS, 100*h.Steal)
	}
}

// troubles are what could not be sealed or read, by kind: hundreds of one are told as one.
type troubles struct {
	mu    sync.Mutex
	kinds []trouble
}

type trouble struct {
	what  string
	n     int
	first error
}

// add notes an error; nil is none.
func (t *troubles) add(what string, err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.kinds, func(k trouble) bool { return k.what == what })
	if i < 0 {
		i = len(t.kinds)
		t.kinds = append(t.kinds, trouble{what: what, first: err})
	}
	t.kinds[i].n++
}

// tell says what there is, with the first of each kind.
func (t *troubles) tell(problem func(format string, args ...any)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		problem("after the run, %s: %d times; the first: %v", k.what, k.n, k.first)
	}
}
