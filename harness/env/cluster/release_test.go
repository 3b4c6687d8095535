package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestReleases: each release with a list of jars is of a line, and its settings are in the dialect
// that it reads.
func TestReleases(t *testing.T) {
	t.Parallel()
	if !slices.Contains(Releases(), DefaultRelease) {
		t.Error("the default is none of them")
	}
	const size, batchWindow = "commitlog_segment_size", "commitlog_sync_batch_window_in_ms"
	for _, release := range Releases() {
		c, err := LocalConfig{CacheDir: "/cache", Release: release + withPeriodic}.WithDefaults()
		must(t, err)
		text, err := c.yamlFor(0, "/data")
		must(t, err)
		var is map[string]any
		must(t, yaml.Unmarshal([]byte(text), &is))
		old := strings.HasPrefix(release, "3.11.") || strings.HasPrefix(release, "4.0.")
		for key, want := range map[string]any{
			size: "8MiB", "commitlog_sync_period": "10000ms", "paxos_variant": PaxosV2, "networking_cache_size": "16MiB", "paxos_state_purging": "repaired",
			size + "_in_mb": 8, "commitlog_sync_period_in_ms": 10000, "hints_flush_period_in_ms": 1000, "memtable_offheap_space_in_mb": 64,
		} {
			if isOld := strings.Contains(key, "_in_m"); isOld != old {
				want = nil
			}
			if is[key] != want {
				t.Errorf("%s: %s is %v, want %v", release, key, is[key], want)
			}
		}
		if old && strings.Contains(text, "MiB") {
			t.Errorf("%s: a size has a unit:\n%s", release, text)
		}
		if want := map[bool]string{true: PaxosV1, false: PaxosV2}[old]; c.PaxosVariant != want {
			t.Errorf("%s: Paxos %s by default, want %s", release, c.PaxosVariant, want)
		}
		if _, window := is[batchWindow]; window {
			t.Errorf("%s: a batch window though the commit log is synced periodically", release)
		}
		if thrift := strings.HasPrefix(release, "3.11."); (is["start_native_transport"] == true) != thrift || (is["start_rpc"] == false) != thrift {
			t.Errorf("%s: CQL %v, Thrift %v", release, is["start_native_transport"], is["start_rpc"])
		}
		accord, _ := is["accord"].(map[string]any)
		if on := strings.HasSuffix(release, withAccord); on != (accord["enabled"] == true) || on && accord["journal_directory"] != "/data/accord_journal" {
			t.Errorf("%s: Accord is %v", release, is["accord"])
		}
		if c.name() != release+withPeriodic || strings.Contains(c.Release, "+") {
			t.Errorf("%s: it says that it is %s, of release %s", release, c.name(), c.Release)
		}
		if neutral := c.neutral(); neutral.accord || neutral.name() != neutral.Release {
			t.Errorf("%s: a template of %s", release, neutral.name())
		}
		c.CommitLog = CommitLogBatch
		if c.name() != release {
			t.Errorf("%s: it says that it is %s with its commit log in batches", release, c.name())
		}
		text, err = c.yamlFor(0, "/data")
		must(t, err)
		if window := strings.Contains(text, "\n"+batchWindow+": 2\n"); window != strings.HasPrefix(release, "3.11.") {
			t.Errorf("%s: a batch window: %v", release, window)
		}
	}
}

// TestLineOf: a line's name is a whole part of a release's.
func TestLineOf(t *testing.T) {
	t.Parallel()
	for release, noJMX := range map[string]bool{"3.11.1": true, "3.11.10": false, "3.11.9": false} {
		l, err := lineOf(release)
		must(t, err)
		args, err := l.jvmArgs([]string{"/lib/jamm-0.3.jar"}, 512, "/d", cds{})
		must(t, err)
		jmx := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-Dcassandra.jmx.") })
		if jmx == noJMX || !l.older {
			t.Errorf("%s: %+v, with JMX: %v", release, l, jmx)
		}
	}
	for _, bad := range []struct{ release, variant, field, says string }{
		{"5.0.66", "", "Release", "one of 3.11.1,"},
		{"5.0", "", "Release", "fetch-cassandra --add"},
		{"3.11.9", PaxosV2, "PaxosVariant", "release 3.11.9 has no variant v2, only v1"},
		{"", "v3", "PaxosVariant", "unknown variant"},
	} {
		err := CheckRelease(bad.release, bad.variant)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != bad.field || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s, Paxos %q: %v", bad.release, bad.variant, err)
		}
	}
	must(t, CheckRelease("", ""))
	must(t, CheckRelease("4.1.10", PaxosV1UnsafeReadsRejects))
}

// TestTemplatesAreByRelease: data of one release is not another's. Accord is switched on later.
func TestTemplatesAreByRelease(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, release := range Releases() {
		c, err := LocalConfig{CacheDir: "/cache", Release: release}.WithDefaults()
		must(t, err)
		key, err := templateKey(c, Java{Path: "/java"}, []string{"/lib/jamm-0.3.jar"})
		must(t, err)
		if other, twice := seen[key]; twice && other != c.Release {
			t.Errorf("%s has the template of %s", release, other)
		}
		seen[key] = c.Release
	}
}
