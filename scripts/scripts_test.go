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
		b.write(filepath.Join(b.dir, "scripts", name), string(text), 0o755)
	}
	b.write(filepath.Join(b.dir, "scripts", "cassandra-pom.xml"), "<project/>", 0o644)
	b.write(filepath.Join(b.dir, "mvn"), fakeMaven, 0o755)
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(jars)) {
		sum := sha256.Sum256([]byte(jars[name]))
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), name)
		b.write(filepath.Join(b.network, name), jars[name], 0o644)
	}
	b.write(filepath.Join(b.dir, "scripts", "cassandra-"+CassandraVersion+".sha256"), sums.String(), 0o644)
	// Of another platform: brought by Maven, not listed, to be dropped.
	b.write(filepath.Join(b.network, "native-1.0-osx-x86_64.jar"), "x", 0o644)
	return b
}

func (b *bench) write(path, text string, mode os.FileMode) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
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
	b.write(filepath.Join(b.dir, "offline"), "", 0o644)
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
		{"wrong checksum", func(b *bench) { b.write(filepath.Join(b.network, "two-2.0.jar"), "trojan", 0o644) }, "two-2.0.jar"},
		{"one too many", func(b *bench) { b.write(filepath.Join(b.network, "three-3.0.jar"), "x", 0o644) }, "three-3.0.jar"},
		{"no network", func(b *bench) { b.write(filepath.Join(b.dir, "offline"), "", 0o644) }, "network"},
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
	seen := map[string]bool{}
	cassandra := false
	for line := range strings.Lines(CassandraSums) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if b, err := hex.DecodeString(sum); !ok || err != nil || len(b) != sha256.Size || !strings.HasSuffix(name, ".jar") || seen[name] {
			t.Errorf("malformed or repeated: %q", line)
		}
		seen[name] = true
		cassandra = cassandra || name == "cassandra-all-"+CassandraVersion+".jar"
	}
	if !cassandra {
		t.Error("the database itself is not in the list")
	}
	pom, err := os.ReadFile("cassandra-pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(pom), "<version>"+CassandraVersion+"</version>") {
		t.Error("the pom asks for another version")
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
