package scripts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/internal/exetest"
)

// bench is a copy of fetch-cassandra with a list of two small jars, and a Maven
// that copies from a directory, which stands for the network, through a local
// repository that keeps what it has got, good or bad.
type bench struct {
	t          *testing.T
	dir        string
	script     string
	cache      string
	network    string // what Maven would download
	repository string // Maven's own
}

const fakeMaven = `#!/bin/sh
echo run >>"$FAKE/calls"
repo=$FAKE/repository
for a in "$@"; do
  case $a in
    -DoutputDirectory=*) out=${a#*=} ;;
    -Dmaven.repo.local=*) repo=${a#*=} ;;
  esac
done
[ ! -e "$FAKE/offline" ] || { echo "network unreachable" >&2; exit 1; }
mkdir -p "$repo"
for f in "$FAKE"/network/*; do
  [ -e "$repo/${f##*/}" ] || cp "$f" "$repo/"
  cp "$repo/${f##*/}" "$out/"
done
`

var jars = map[string]string{"one-1.0.jar": "the first jar", "two-2.0.jar": "the second jar"}

func newBench(t *testing.T) *bench {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash here: ", err)
	}
	b := &bench{t: t, dir: t.TempDir()}
	b.cache, b.network, b.repository = filepath.Join(b.dir, "cache"), filepath.Join(b.dir, "network"), filepath.Join(b.dir, "repository")
	b.script = filepath.Join(b.dir, "scripts", "fetch-cassandra")
	for _, name := range []string{"fetch-cassandra", "cache.bash"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		exetest.Write(t, filepath.Join(b.dir, "scripts", name), string(text))
	}
	b.write(filepath.Join(b.dir, "scripts", "cassandra", "pom.xml"), "<project/>")
	exetest.Write(t, filepath.Join(b.dir, "mvn"), fakeMaven)
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(jars)) {
		sum := sha256.Sum256([]byte(jars[name]))
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		b.write(filepath.Join(b.network, name), jars[name])
	}
	b.write(filepath.Join(b.dir, "scripts", "cassandra", CassandraVersion+".sha256"), sums.String())
	// Of another platform: brought by Maven, not listed, to be dropped.
	b.write(filepath.Join(b.network, "native-1.0-osx-x86_64.jar"), "x")
	return b
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// run runs the script; out is standard output, log standard error.
func (b *bench) run(args ...string) (code int, out, log string) {
	b.t.Helper()
	cmd := exec.Command(b.script, args...)
	cmd.Env = append(os.Environ(), "FENCEPOST_CACHE="+b.cache, "MVN="+filepath.Join(b.dir, "mvn"), "FAKE="+b.dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		b.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// calls is how often Maven ran.
func (b *bench) calls() int {
	text, err := os.ReadFile(filepath.Join(b.dir, "calls"))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "run")
}

func (b *bench) lib(name string) string {
	return filepath.Join(b.cache, "cassandra", CassandraVersion, "lib", name)
}

// complete fails unless the cache holds exactly the listed jars, and nothing of
// a fetch is left beside them.
func (b *bench) complete() {
	b.t.Helper()
	for name, want := range jars {
		if got, err := os.ReadFile(b.lib(name)); err != nil || string(got) != want {
			b.t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	entries, err := os.ReadDir(b.lib(""))
	if err != nil || len(entries) != len(jars) {
		b.t.Errorf("the cache holds %d files, want %d (%v)", len(entries), len(jars), err)
	}
	left, err := filepath.Glob(filepath.Join(b.cache, "cassandra", CassandraVersion, "fetching.*"))
	if err != nil || len(left) > 0 {
		b.t.Errorf("left behind: %v (%v)", left, err)
	}
}

func (b *bench) succeed(args ...string) string {
	b.t.Helper()
	code, out, log := b.run(args...)
	if code != 0 {
		b.t.Fatalf("exit code %d\n%s", code, log)
	}
	return out
}

func TestFetch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if code, _, log := b.run("--check"); code != 1 || !strings.Contains(log, "one-1.0.jar") {
		t.Errorf("--check of an empty cache: exit code %d\n%s", code, log)
	}
	if b.calls() != 0 {
		t.Error("--check fetches")
	}
	if out := b.succeed(); out != strings.TrimSuffix(b.lib(""), "/")+"\n" {
		t.Errorf("printed %q", out)
	}
	b.complete()
	// Cached: no Maven, no network.
	b.write(filepath.Join(b.dir, "offline"), "")
	b.succeed()
	b.succeed("--check")
	if b.calls() != 1 {
		t.Errorf("Maven ran %d times, want once", b.calls())
	}
	if code, _, _ := b.run("--nonsense"); code != 64 {
		t.Errorf("unknown argument: exit code %d", code)
	}
}

func TestFetchRepairs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(*bench) error
	}{
		{"a truncated jar", func(b *bench) error { return os.Truncate(b.lib("one-1.0.jar"), 3) }},
		{"a missing jar", func(b *bench) error { return os.Remove(b.lib("two-2.0.jar")) }},
		{"a file that does not belong", func(b *bench) error { return os.WriteFile(b.lib("evil.jar"), nil, 0o644) }},
		{"a changed jar", func(b *bench) error { return os.WriteFile(b.lib("one-1.0.jar"), []byte("other"), 0o644) }},
		{"an interrupted fetch", func(b *bench) error {
			left := filepath.Join(b.cache, "cassandra", CassandraVersion, "fetching.abc")
			return errors.Join(os.RemoveAll(b.lib("")), os.MkdirAll(left, 0o755), os.WriteFile(filepath.Join(left, "one"), nil, 0o644))
		}},
		{"a truncated jar, in Maven's repository too", func(b *bench) error {
			return errors.Join(os.Truncate(b.lib("one-1.0.jar"), 3), os.Truncate(filepath.Join(b.repository, "one-1.0.jar"), 3))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.succeed()
			if err := tc.spoil(b); err != nil {
				t.Fatal(err)
			}
			if code, _, _ := b.run("--check"); code != 1 {
				t.Errorf("--check: exit code %d, want 1", code)
			}
			b.succeed()
			b.complete()
		})
	}
}

func TestFetchRefusesWrongJars(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(*bench)
		says  string
	}{
		{"wrong checksum", func(b *bench) { b.write(filepath.Join(b.network, "two-2.0.jar"), "trojan") }, "two-2.0.jar"},
		{"one too many", func(b *bench) { b.write(filepath.Join(b.network, "three-3.0.jar"), "x") }, "three-3.0.jar"},
		{"no network", func(b *bench) { b.write(filepath.Join(b.dir, "offline"), "") }, "network"},
		{"no Maven", func(b *bench) {
			if err := os.Remove(filepath.Join(b.dir, "mvn")); err != nil {
				b.t.Fatal(err)
			}
		}, "scripts/ensure-tools"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tc.spoil(b)
			code, out, log := b.run()
			if code == 0 || out != "" || !strings.Contains(log, tc.says) {
				t.Errorf("exit code %d, output %q, log:\n%s", code, out, log)
			}
			if strings.Contains(tc.says, ".jar") && strings.Contains(log, "one-1.0.jar") {
				t.Errorf("the error names a good jar:\n%s", log)
			}
			if _, err := os.Stat(b.lib("")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the cache was filled: %v", err)
			}
		})
	}
}

func TestSumsAreWellFormed(t *testing.T) {
	t.Parallel()
	if !slices.Contains(CassandraReleases(), CassandraVersion) {
		t.Error("the default release has no list")
	}
	for _, release := range CassandraReleases() {
		seen := map[string]bool{}
		for line := range strings.Lines(CassandraSums(release)) {
			sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			if b, err := hex.DecodeString(sum); !ok || err != nil || len(b) != sha256.Size || !strings.HasSuffix(name, ".jar") || seen[name] {
				t.Errorf("%s: malformed or repeated: %q", release, line)
			}
			seen[name] = true
		}
		if !seen["cassandra-all-"+release+".jar"] {
			t.Errorf("%s: the database itself is not in the list", release)
		}
	}
	script, err := os.ReadFile("fetch-cassandra")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "\ndefault="+CassandraVersion+"\n") {
		t.Error("the script has another default")
	}
	if sums := CassandraSums("1.0.0"); sums != "" {
		t.Errorf("the list of a release that is not there: %q", sums)
	}
}

// TestFetchOther: a release beside the default has a list and a directory of its own; one
// without a list is refused until it is added.
func TestFetchOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const other = "9.9.1-beta2"
	for _, args := range [][]string{{other}, {"--check", other}, {"--add"}, {"../5.0.6"}, {CassandraVersion, other}} {
		if code, _, log := b.run(args...); code != 64 || b.calls() != 0 {
			t.Errorf("%q: exit code %d, %d calls\n%s", args, code, b.calls(), log)
		}
	}
	if code, _, log := b.run(other); code != 64 || !strings.Contains(log, CassandraVersion) || !strings.Contains(log, "--add "+other) {
		t.Errorf("exit code %d\n%s", code, log)
	}
	if code, _, log := b.run("--add", other); code == 0 || !strings.Contains(log, "cassandra-all-"+other) {
		t.Errorf("a list without the database: exit code %d\n%s", code, log)
	}
	b.write(filepath.Join(b.network, "cassandra-all-"+other+".jar"), "the database")
	lib := filepath.Join(b.cache, "cassandra", other, "lib")
	if out := b.succeed("--add", other); out != lib+"\n" {
		t.Errorf("printed %q", out)
	}
	if code, _, log := b.run("--add", other); code != 1 || !strings.Contains(log, "there already") {
		t.Errorf("added twice: exit code %d\n%s", code, log)
	}
	b.succeed("--check", other)
	if err := os.WriteFile(filepath.Join(lib, "one-1.0.jar"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := b.run("--check", other); code != 1 {
		t.Errorf("a changed jar: exit code %d", code)
	}
	if _, err := os.Stat(b.lib("")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the default release was fetched too: %v", err)
	}
}

// TestPostgres: the script, its list and its pom name one version.
func TestPostgres(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"fetch-postgres":                          "\nversion=" + PostgresVersion + "\n",
		"postgres-pom.xml":                        "<version>" + PostgresVersion + "</version>",
		"postgres-" + PostgresVersion + ".sha256": "-linux-amd64-" + PostgresVersion + ".jar\n",
	} {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q (%v)", file, want, err)
		}
	}
}

// TestStoreVersions: the script, the modules and lists beside it and the tool name the same
// releases of stores.
func TestStoreVersions(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	script := read("fetch-store")
	for store, version := range StoreVersions {
		if !strings.Contains(script, "["+store+"]="+version) {
			t.Errorf("the script has another release of %s than %s", store, version)
		}
	}
	for path, want := range map[string]string{
		"../stores/etcd/go.mod":                                     "go.etcd.io/etcd/server/v3 v" + StoreVersions["etcd"],
		"../stores/nats/go.mod":                                     "github.com/nats-io/nats-server/v2 v" + StoreVersions["nats"],
		"../stores/temporal/go.mod":                                 "go.temporal.io/server v" + StoreVersions["temporal"],
		"../systems/go.mod":                                         "go.etcd.io/etcd/client/v3 v" + StoreVersions["etcd"],
		"curator/pom.xml":                                           "<release>" + StoreVersions["curator"] + "</release>",
		"curator/" + StoreVersions["curator"] + ".sha256":           "  curator-recipes-" + StoreVersions["curator"] + ".jar\n",
		"curator/" + StoreVersions["curator-old"] + ".sha256":       "  curator-recipes-" + StoreVersions["curator-old"] + ".jar\n",
		"db-scheduler/pom.xml":                                      "<release>" + StoreVersions["db-scheduler"] + "</release>",
		"db-scheduler/" + StoreVersions["db-scheduler"] + ".sha256": "  db-scheduler-" + StoreVersions["db-scheduler"] + ".jar\n",
		"quartz/pom.xml":                                            "<release>" + StoreVersions["quartz"] + "</release>",
		"quartz/" + StoreVersions["quartz"] + ".sha256":             "  quartz-" + StoreVersions["quartz"] + ".jar\n",
		"shedlock/pom.xml":                                          "<release>" + StoreVersions["shedlock"] + "</release>",
		"shedlock/" + StoreVersions["shedlock"] + ".sha256":         "  shedlock-core-" + StoreVersions["shedlock"] + ".jar\n",
		"zookeeper/pom.xml":                                         "<version>" + StoreVersions["zookeeper"] + "</version>",
		"zookeeper/" + StoreVersions["zookeeper"] + ".sha256":       "  zookeeper-" + StoreVersions["zookeeper"] + ".jar\n",
	} {
		if !strings.Contains(read(path), want) {
			t.Errorf("%s has no %q", path, want)
		}
	}
	if !strings.Contains(script, "[postgres]="+PostgresVersion) {
		t.Error("the script has another release of postgres")
	}
	for _, args := range [][]string{nil, {"consul"}, {"etcd", "nats"}, {"--check"}} {
		cmd := exec.Command("./fetch-store", args...)
		cmd.Env = append(os.Environ(), "FENCEPOST_CACHE="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), "curator curator-old db-scheduler etcd libfaketime nats postgres quartz redis shedlock temporal zookeeper") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	cmd := exec.Command("./fetch-store", "--check", "nats")
	cmd.Env = append(os.Environ(), "FENCEPOST_CACHE="+t.TempDir())
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "nats is not in") {
		t.Errorf("an empty cache: %v\n%s", err, out)
	}
}

// TestFetchLibrary: what it does not know it refuses, and names what there is. Where libraries go the test of
// systems/cmd/schedulers compares.
func TestFetchLibrary(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"quartz"}, {"bullmq", "celery"}, {"--check"}} {
		out, err := exec.Command("./fetch-library", args...).CombinedOutput()
		if err == nil || err.Error() != "exit status 64" || !strings.Contains(string(out), "name one library: bullmq celery\n") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}

// TestBuildJava: what it does not know it refuses, and names what there is.
func TestBuildJava(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"curator"}, {"quartz", t.TempDir()}, {"curator", "db-scheduler", t.TempDir()}} {
		out, err := exec.Command("./build-java", args...).CombinedOutput()
		if err == nil || err.Error() != "exit status 64" || !strings.Contains(string(out), "name a library, curator db-scheduler, and a directory: ") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}
