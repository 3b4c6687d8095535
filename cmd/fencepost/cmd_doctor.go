package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/kept"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

// finding is one line of doctor's report.
type finding struct {
	name   string
	detail string
	// remedy is what to do about it; "" if all is well.
	remedy string
	// needed: without it the local cluster cannot run.
	needed bool
}

func newDoctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [STORE]",
		Short: "Show what this machine can run, and how to fix what it cannot",
		Long: `Tries everything that the local cluster needs, and looks for alternatives. With a STORE
("fencepost list stores") it looks for what runs on that one need instead.
Exits with 0 if they can run here, else with 1; 64 for a store that there is not.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == servers.Cassandra {
				return doctor(cmd.Context(), cmd.OutOrStdout())
			}
			return doctorOf(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
}

func doctor(ctx context.Context, out io.Writer) error {
	cache, err := cluster.CacheDir()
	if err != nil {
		return err
	}
	findings := []finding{
		checkSandbox(), checkJava(ctx), checkJars(cache), checkMaven(), checkMemory(), checkDisk(cache), checkCores(),
		checkKept(), checkDocker(ctx),
	}
	for _, k := range sinks.Kinds() {
		if k.Find != nil {
			findings = append(findings, checkSink(ctx, k, cache))
		}
	}
	findings = append(findings, checkStores(ctx, cache))
	if !tell(out, findings) {
		fmt.Fprintln(out, "\nThe local cluster cannot run here yet: see MISSING above.")
		return exitWith(1)
	}
	fmt.Fprintln(out, "\nThe local cluster can run here.")
	return nil
}

// doctorOf is doctor for the servers of another store.
func doctorOf(ctx context.Context, out io.Writer, store string) error {
	k, err := servers.Of(store)
	if err != nil {
		return usageError(err)
	}
	cache, err := cluster.CacheDir()
	if err != nil {
		return err
	}
	bin, err := binDir(ctx, "")
	if err != nil {
		return err
	}
	findings := []finding{checkSandbox(), checkStore(ctx, k, cache), checkLocks(bin)}
	if k.Now != nil {
		findings = append(findings, checkFaketime(cache))
	}
	findings = append(findings, checkParts(k.Name, bin)...)
	if !tell(out, findings) {
		fmt.Fprintf(out, "\nRuns on %s cannot start here yet: see MISSING above.\n", k.Name)
		return exitWith(1)
	}
	fmt.Fprintf(out, "\nRuns on %s can start here.\n", k.Name)
	return nil
}

// checkStore looks for the servers of a store.
func checkStore(ctx context.Context, k servers.Kind, cache string) finding {
	f := finding{name: k.Name, needed: true}
	p, err := k.Find(ctx, cache)
	if err != nil {
		f.detail, f.remedy = firstLine(err), "run "+k.Fetch
		return f
	}
	f.detail = fmt.Sprintf("%s, version %s: %s", k.About, p.Version, p.Path)
	return f
}

// checkLocks looks for the locks on other stores.
func checkLocks(bin string) finding {
	path := filepath.Join(bin, system.Locks)
	if _, err := os.Stat(path); err != nil {
		return finding{name: "locks", detail: "the locks of this repository on other stores are not built; exec:CMD does without", remedy: "run make systems"}
	}
	return finding{name: "locks", detail: path}
}

// checkFaketime looks for what sets the clocks of servers.
func checkFaketime(cache string) finding {
	path, err := servers.FindFaketime(cache)
	if err != nil {
		return finding{name: "clocks", detail: servers.Faketime + " is not here: scenarios that set the clocks of servers do not run without", remedy: "run scripts/fetch-store " + servers.Faketime}
	}
	return finding{name: "clocks", detail: path}
}

// checkStores says which stores have their servers here.
func checkStores(ctx context.Context, cache string) finding {
	var here, away []string
	for _, k := range servers.Kinds() {
		if _, err := k.Find(ctx, cache); err == nil {
			here = append(here, k.Name)
		} else {
			away = append(away, k.Name)
		}
	}
	f := finding{name: "stores", detail: "servers of other stores (--store): " + cmp.Or(strings.Join(here, ", "), "none")}
	if len(away) > 0 {
		f.remedy = "for " + strings.Join(away, ", ") + ": scripts/fetch-store STORE"
	}
	return f
}

// tell prints findings and says whether nothing that is needed is missing.
func tell(out io.Writer, findings []finding) bool {
	can := true
	for _, f := range findings {
		mark := "ok     "
		switch {
		case f.remedy != "" && f.needed:
			mark, can = "MISSING", false
		case f.remedy != "":
			mark = "note   "
		}
		fmt.Fprintf(out, "%s  %-11s %s\n", mark, f.name, f.detail)
		for line := range strings.Lines(f.remedy) {
			fmt.Fprintf(out, "         %-11s -> %s\n", "", strings.TrimSpace(line))
		}
	}
	return can
}

func checkSandbox() finding {
	how := "in a user namespace, without root"
	if os.Geteuid() == 0 {
		how = "as root"
	}
	f := finding{name: "sandbox", needed: true, detail: "network, mount and PID namespaces, bridge and NAT work (" + how + ")"}
	if sandbox.Inside() {
		f.detail = "this is inside one"
		return f
	}
	err := sandbox.Available()
	var u *sandbox.UnavailableError
	switch {
	case errors.As(err, &u):
		f.detail = fmt.Sprintf("%s: %v", u.Step, u.Cause)
		f.remedy = strings.Join(u.Remedy, "\n")
	case err != nil:
		f.detail, f.remedy = err.Error(), "run as root, or use CLUSTER=docker or CLUSTER=external"
	}
	return f
}

func checkJava(ctx context.Context) finding {
	f := finding{name: "java", needed: true}
	java, err := cluster.FindJava(ctx)
	var je *cluster.JavaError
	switch {
	case errors.As(err, &je):
		f.detail = "no Java 17 found"
		if len(je.Tried) > 0 {
			f.detail += " (" + strings.Join(je.Tried, "; ") + ")"
		}
		f.remedy = "run scripts/ensure-tools, or set JAVA_HOME"
	case err != nil:
		f.detail, f.remedy = err.Error(), "run scripts/ensure-tools"
	default:
		f.detail = fmt.Sprintf("%s, version %s", java.Path, java.Version)
	}
	return f
}

func checkJars(cache string) finding {
	f := finding{name: "cassandra", needed: true}
	jars, err := cluster.CheckJars(cache, cluster.DefaultRelease)
	if err != nil {
		f.detail, f.remedy = err.Error(), "run scripts/fetch-cassandra"
		return f
	}
	f.detail = fmt.Sprintf("%s: %d jars as listed in %s", cluster.DefaultRelease, len(jars), cluster.LibDir(cache, cluster.DefaultRelease))
	return f
}

func checkSink(ctx context.Context, k sinks.Kind, cache string) finding {
	found, err := k.Find(ctx, cache)
	if err != nil {
		return finding{name: k.Name, detail: "no server, which only --sink=" + k.Name + " needs", remedy: k.Remedy}
	}
	return finding{name: k.Name, detail: found}
}

func checkMaven() finding {
	path, err := exec.LookPath("mvn")
	if err != nil {
		return finding{name: "maven", detail: "mvn is not in PATH; only scripts/fetch-cassandra and scripts/fetch-postgres need it", remedy: "run scripts/ensure-tools, unless the jars are there already"}
	}
	return finding{name: "maven", detail: path}
}

func checkMemory() finding {
	f := finding{name: "memory", needed: true}
	have, need, err := cluster.Memory(cluster.LocalConfig{})
	switch {
	case err != nil:
		f.detail, f.remedy = err.Error(), "use CLUSTER=external"
	case have < need:
		f.detail = fmt.Sprintf("%d MiB available, three nodes need about %d MiB", have, need)
		f.remedy = "end other programs, or use a smaller heap (`fencepost up --heap=256`) or CLUSTER=external"
	default:
		f.detail = fmt.Sprintf("%d MiB available, three nodes need about %d MiB", have, need)
	}
	return f
}

func checkDisk(cache string) finding {
	const needMiB = 1024 // jars, template with class archive, three nodes' data, logs
	f := finding{name: "disk", needed: true}
	dir := cache
	var fs unix.Statfs_t
	for unix.Statfs(dir, &fs) != nil {
		if dir == filepath.Dir(dir) {
			f.detail, f.remedy = "cannot tell how much is free in "+cache, "set FENCEPOST_CACHE to a directory that exists"
			return f
		}
		dir = filepath.Dir(dir)
	}
	free := fs.Bavail * uint64(fs.Bsize) >> 20
	f.detail = fmt.Sprintf("%d MiB free for %s, about %d MiB are used", free, cache, needMiB)
	if free < needMiB {
		f.remedy = "make room, or set FENCEPOST_CACHE to a larger disk"
	}
	return f
}

func checkCores() finding {
	n := runtime.NumCPU()
	f := finding{name: "cores", detail: fmt.Sprint(n)}
	if n < 2 {
		f.remedy = "it will run, but slowly; two or more are better"
	}
	return f
}

func checkKept() finding {
	f := finding{name: "kept", detail: "no cluster is up"}
	paths, err := kept.DefaultPaths()
	if err != nil {
		f.detail, f.remedy = err.Error(), "check FENCEPOST_CACHE and HOME"
		return f
	}
	s, err := kept.Query(paths)
	switch {
	case err == nil:
		var nodes []string
		for _, n := range s.Nodes {
			nodes = append(nodes, fmt.Sprintf("%s %s", n.Name, n.State))
		}
		f.detail = "a cluster is up: " + strings.Join(nodes, ", ")
	case !errors.Is(err, kept.ErrNotUp):
		f.detail, f.remedy = err.Error(), "`fencepost down` ends it"
	}
	return f
}
