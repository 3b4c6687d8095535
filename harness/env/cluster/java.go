package cluster

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/scripts"
)

// wantJava is the Java release that the JVM flags are made for.
const wantJava = "17"

// Java is a Java runtime.
type Java struct {
	Path    string // of the java executable
	Version string // e.g. "17.0.15"
	Runtime string // e.g. "OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, …)"
}

// JavaError says that no usable Java was found.
type JavaError struct {
	// Tried lists each candidate and what is wrong with it.
	Tried []string
}

func (e *JavaError) Error() string {
	msg := "no Java " + wantJava + " found, which Cassandra needs: run scripts/ensure-tools, or set JAVA_HOME"
	for _, t := range e.Tried {
		msg += "\n  - " + t
	}
	return msg
}

// JarsError says that the cache does not hold the release as listed.
type JarsError struct {
	Release string
	Dir     string
	Missing []string
	Damaged []string
	Extra   []string
}

func (e *JarsError) Error() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"missing", e.Missing}, {"damaged", e.Damaged}, {"not part of it", e.Extra}} {
		switch n := len(p.names); {
		case n > 3:
			parts = append(parts, fmt.Sprintf("%d jars %s", n, p.what))
		case n > 0:
			parts = append(parts, p.what+": "+strings.Join(p.names, ", "))
		}
	}
	return fmt.Sprintf("Cassandra %s is not complete in %s (%s): run scripts/fetch-cassandra %s",
		e.Release, e.Dir, strings.Join(parts, "; "), e.Release)
}

// FindJava looks for a Java 17: $JAVA_HOME, PATH, /usr/lib/jvm, /opt/java. The
// error is a *[JavaError].
func FindJava(ctx context.Context) (Java, error) {
	var candidates []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = append(candidates, filepath.Join(home, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil {
		candidates = append(candidates, path)
	}
	for _, pattern := range []string{"/usr/lib/jvm/*17*/bin/java", "/opt/java/*17*/bin/java"} {
		found, err := filepath.Glob(pattern)
		if err == nil {
			candidates = append(candidates, found...)
		}
	}
	var e JavaError
	for _, c := range candidates {
		java, err := askJava(ctx, c)
		if err == nil {
			return java, nil
		}
		e.Tried = append(e.Tried, err.Error())
	}
	if ctx.Err() != nil {
		return Java{}, ctx.Err()
	}
	return Java{}, &e
}

func askJava(ctx context.Context, path string) (Java, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-version").CombinedOutput()
	if err != nil {
		return Java{}, fmt.Errorf("%s does not run: %w", path, err)
	}
	java := Java{Path: path}
	// openjdk version "17.0.15" 2025-04-15
	// OpenJDK Runtime Environment (build …)
	// OpenJDK 64-Bit Server VM (build …)
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), ` version "`); ok && java.Version == "" {
			java.Version, _, _ = strings.Cut(after, `"`)
		}
		if strings.Contains(lines.Text(), " VM ") {
			java.Runtime = lines.Text()
		}
	}
	if java.Version != wantJava && !strings.HasPrefix(java.Version, wantJava+".") {
		return Java{}, fmt.Errorf("%s is version %q", path, java.Version)
	}
	return java, nil
}

// LibDir is where scripts/fetch-cassandra puts a release's jars.
func LibDir(cacheDir, release string) string {
	return filepath.Join(cacheDir, "cassandra", release, "lib")
}

// CheckJars compares every jar in LibDir with the release's checksum list that was built
// into this tool, and returns their paths in order (61 MB: 0.1 to 0.3 s). The
// error is a *[JarsError] that says what to run.
func CheckJars(cacheDir, release string) ([]string, error) {
	dir := LibDir(cacheDir, release)
	want := map[string]string{}
	var names []string
	for line := range strings.Lines(scripts.CassandraSums(release)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return nil, fmt.Errorf("cluster: malformed line %q in the checksum list", line)
		}
		want[name] = sum
		names = append(names, name)
	}
	e := JarsError{Release: release, Dir: dir}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	for _, entry := range entries {
		if want[entry.Name()] == "" {
			e.Extra = append(e.Extra, entry.Name())
		}
	}
	paths, sums, errs := make([]string, len(names)), make([]string, len(names)), make([]error, len(names))
	var some errgroup.Group
	some.SetLimit(4)
	for i, name := range names {
		paths[i] = filepath.Join(dir, name)
		some.Go(func() error { sums[i], errs[i] = FileSum(paths[i]); return nil })
	}
	_ = some.Wait() // errs has them
	for i, name := range names {
		switch {
		case errors.Is(errs[i], os.ErrNotExist):
			e.Missing = append(e.Missing, name)
		case errs[i] != nil:
			return nil, fmt.Errorf("cluster: %w", errs[i])
		case sums[i] != want[name]:
			e.Damaged = append(e.Damaged, name)
		}
	}
	if len(e.Missing)+len(e.Damaged)+len(e.Extra) > 0 {
		return nil, &e
	}
	return paths, nil
}

// FileSum is the SHA-256 of a file.
func FileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// addOpens and addExports are what Cassandra 5.0 needs of Java 17's modules
// (its conf/jvm17-server.options). Other releases run with them too.
var (
	addOpens = []string{
		"java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect",
		"java.base/java.math", "java.base/java.net", "java.base/java.nio", "java.base/java.nio.charset",
		"java.base/java.nio.file.spi", "java.base/java.util", "java.base/java.util.concurrent",
		"java.base/java.util.concurrent.atomic", "java.base/java.util.concurrent.locks",
		"java.base/jdk.internal.loader", "java.base/jdk.internal.ref", "java.base/jdk.internal.reflect",
		"java.base/jdk.internal.math", "java.base/jdk.internal.module", "java.base/jdk.internal.util.jar",
		"java.base/sun.nio.ch", "java.logging/java.util.logging",
		"jdk.management/com.sun.management.internal",
	}
	addExports = []string{
		"java.base/jdk.internal.misc", "java.base/java.lang.ref", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
		"java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.management/com.sun.jmx.remote.security",
		"java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport",
		"java.rmi/sun.rmi.transport.tcp", "jdk.unsupported/sun.misc",
	}
)

// cds says what to do about the class data sharing archive.
type cds struct {
	use  string // path of an archive to map, "" for none
	dump string // path of an archive to write at exit, "" for none
}

// jvmArgs is a node's command line after "java".
func (l line) jvmArgs(jars []string, heapMiB int, dir string, archive cds) ([]string, error) {
	var jamm string
	for _, j := range jars {
		if strings.HasPrefix(filepath.Base(j), "jamm-") {
			jamm = j
		}
	}
	if jamm == "" {
		return nil, fmt.Errorf("cluster: jamm, the memory meter, is not among the jars")
	}
	args := []string{
		fmt.Sprintf("-Xms%dM", heapMiB), fmt.Sprintf("-Xmx%dM", heapMiB),
		"-XX:+UseSerialGC", "-Xss512k", "-XX:ReservedCodeCacheSize=128m",
		// No files in /tmp/hsperfdata_USER, which a SIGKILL would leave behind.
		"-XX:-UsePerfData",
		"-XX:+ExitOnOutOfMemoryError",
		"-XX:ErrorFile=" + filepath.Join(dir, "hs_err.log"),
		// The agent is allowed beside the archive only with a diagnostic flag.
		"-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent",
	}
	switch {
	case archive.dump != "":
		args = append(args, "-XX:ArchiveClassesAtExit="+archive.dump)
	case archive.use != "":
		args = append(args, "-XX:SharedArchiveFile="+archive.use, "-Xshare:auto")
	}
	tmp := filepath.Join(dir, "tmp")
	args = append(args,
		"-javaagent:"+jamm,
		"-Djdk.attach.allowAttachSelf=true",
		"-Djava.io.tmpdir="+tmp, "-Djna.tmpdir="+tmp,
		"-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8",
		"-Dcassandra-foreground=yes",
		"-Dcassandra.config=file://"+filepath.Join(dir, "cassandra.yaml"),
		"-Dcassandra.storagedir="+filepath.Join(dir, "data"),
		"-Dcassandra.logdir="+dir,
		"-Dlogback.configurationFile=file://"+filepath.Join(dir, "logback.xml"),
		// Else every start measures this again, for two seconds at full load.
		"-Dcassandra.memtable.row_overhead_size=180",
		// What makes a start take seconds instead of minutes.
		"-Dcassandra.ring_delay_ms=2000", "-Dcassandra.skip_wait_for_gossip_to_settle=0",
	)
	if !l.noJMX {
		args = append(args, fmt.Sprintf("-Dcassandra.jmx.local.port=%d", jmxPort))
	}
	for _, m := range addOpens {
		args = append(args, "--add-opens", m+"=ALL-UNNAMED")
	}
	for _, m := range addExports {
		args = append(args, "--add-exports", m+"=ALL-UNNAMED")
	}
	// Jars only: a directory in the class path would rule out the archive.
	return append(args, "-cp", strings.Join(jars, ":"), "org.apache.cassandra.service.CassandraDaemon"), nil
}

// availableMiB is MemAvailable of /proc/meminfo.
func availableMiB() (int, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: %w", err)
			}
			return kib / 1024, nil
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}
