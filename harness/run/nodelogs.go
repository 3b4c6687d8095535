package run

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

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
