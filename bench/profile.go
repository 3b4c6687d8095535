package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/pprof/profile"

	"fencepost/core/store/cassandra"
)

// ProfileDir is the directory of profiles in that of a result, profileWindow how long each
// arm works for its own.
const (
	ProfileDir    = "profiles"
	profileWindow = 10 * time.Second
	profileTop    = 40
)

// nodeTables are the nodes' own counts, by what a node did for a client (coordinator) and by
// what it did as a replica (local).
var nodeTables = []string{
	"coordinator_read_latency", "coordinator_scan_latency", "coordinator_write_latency",
	"local_read_latency", "local_scan_latency", "local_write_latency",
}

// counts are those of all nodes, by a table of theirs and a table of the data.
type counts map[[2]string]int64

// profiles has each arm work once more, beside nothing, and writes to dir where the
// processor time of this process goes and what the nodes did meanwhile. The windows are in
// no number: a profile costs time itself.
func (b *bench) profiles(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	nodes, err := openEach(ctx, b.env.Nodes)
	defer nodes.close()
	if err != nil {
		return err
	}
	for _, a := range b.plan.Arms {
		b.progress.Line("profile of %s", a.ID)
		if err := b.profile(ctx, dir, a, nodes); err != nil {
			return fmt.Errorf("profile of %s: %w", a.ID, err)
		}
	}
	return nil
}

func (b *bench) profile(ctx context.Context, dir string, a Arm, nodes sessions) error {
	name := filepath.Join(dir, strings.ReplaceAll(a.ID, "/", "_"))
	f, err := os.Create(name + ".pprof")
	if err != nil {
		return err
	}
	defer f.Close()
	before, err := nodes.counts(ctx)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	s, err := b.subjects[a.ID].Window(ctx, b.window(a, b.plan.Rounds+1, profileWindow))
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	after, err := nodes.counts(ctx)
	if err != nil {
		return err
	}
	out, err := os.Create(name + ".txt")
	if err != nil {
		return err
	}
	defer out.Close()
	fmt.Fprintf(out, "%s (%s): %d operations in %s and %d in all, %.2f LWTs and %.2f requests each\n\n", a.Name, a.ID, s.OK, profileWindow, s.Ended, s.LWTsPerOp(), s.perOp(s.Sent.LWTs+s.Sent.Plain))
	return errors.Join(topOf(out, name+".pprof"), after.since(before).write(out, s.Ended), out.Close())
}

// topOf lists the functions that most processor time was spent in, as `go tool pprof -top` does.
func topOf(out io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return err
	}
	flat, cum, total := map[string]int64{}, map[string]int64{}, int64(0)
	for _, s := range p.Sample {
		v := s.Value[len(s.Value)-1]
		total += v
		seen := map[string]bool{}
		for i, l := range s.Location {
			for j, line := range l.Line {
				if i == 0 && j == 0 {
					flat[line.Function.Name] += v
				}
				if !seen[line.Function.Name] {
					seen[line.Function.Name] = true
					cum[line.Function.Name] += v
				}
			}
		}
	}
	fmt.Fprintf(out, "%s of processor time in this process\n", time.Duration(total).Round(time.Millisecond))
	if total == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "flat %\tcum %\t\n")
	names := slices.SortedFunc(maps.Keys(cum), func(a, b string) int { return cmp.Or(cmp.Compare(flat[b], flat[a]), cmp.Compare(a, b)) })
	for _, n := range names[:min(len(names), profileTop)] {
		fmt.Fprintf(w, "%.1f\t%.1f\t  %s\n", 100*float64(flat[n])/float64(total), 100*float64(cum[n])/float64(total), n)
	}
	return w.Flush()
}

// sessions are one with each node.
type sessions []*cassandra.DB

func openEach(ctx context.Context, nodes []cassandra.Config) (out sessions, err error) {
	for _, cfg := range nodes {
		db, err := cassandra.Open(ctx, cfg)
		if err != nil {
			return out, fmt.Errorf("connect to %s: %w", cfg.Pin, err)
		}
		out = append(out, db)
	}
	return out, nil
}

func (s sessions) close() {
	for _, db := range s {
		db.Close()
	}
}

// counts adds up what the nodes did so far.
func (s sessions) counts(ctx context.Context) (counts, error) {
	out := counts{}
	for _, db := range s {
		for _, table := range nodeTables {
			rows, err := Read(ctx, func(ctx context.Context) ([]map[string]any, error) {
				return db.Query(ctx, false, "SELECT keyspace_name, table_name, count FROM system_views."+table)
			})
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				n, ok := row["count"].(int64)
				if !ok {
					return nil, fmt.Errorf("system_views.%s: count is %T", table, row["count"])
				}
				out[[2]string{table, fmt.Sprintf("%s.%s", row["keyspace_name"], row["table_name"])}] += n
			}
		}
	}
	return out, nil
}

func (c counts) since(before counts) counts {
	out := counts{}
	for k, n := range c {
		if d := n - before[k]; d > 0 {
			out[k] = d
		}
	}
	return out
}

// write lists what was done, by how often; ops is for how many operations.
func (c counts) write(out io.Writer, ops int64) error {
	fmt.Fprint(out, "\nwhat the nodes did meanwhile, by their own counts\n")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "count\tfor each\t\n")
	keys := slices.SortedFunc(maps.Keys(c), func(a, b [2]string) int { return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a[0]+a[1], b[0]+b[1])) })
	for _, k := range keys {
		fmt.Fprintf(w, "%d\t%.3f\t  %s  %s\n", c[k], float64(c[k])/float64(max(ops, 1)), strings.TrimSuffix(k[0], "_latency"), k[1])
	}
	return w.Flush()
}
