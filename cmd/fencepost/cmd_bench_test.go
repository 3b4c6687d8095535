package main

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"high"},
		{"--contention=extreme"},
		{"--contention=low,low"},
		{"--threads=0"},
		{"--threads=x"},
		{"--rounds=4"},
		{"--ttl=10ms"},
		{"--arm=1ms"},
		{"--cluster=moon"},
		{"--rounds=0"},
		{"--subject=orders"},
		{"--subject=jobs", "--contention=high"},
		{"--subject=jobs", "--threads=8"},
		{"--subject=jobs", "--shards=0"},
		{"--subject=jobs", "--shards=4,4"},
		{"--subject=jobs", "--in-flight=-1"},
		{"--subject=jobs", "--rate=0.1"},
		{"--subject=jobs", "--rate=-1"},
		{"--subject=jobs", "--rate=0"},
		{"--subject=jobs", "--in-flight=0"},
		{"--subject=jobs", "--steady=10s"},
		{"--subject=jobs", "--rounds=0"},
		{"--subject=jobs", "--rounds=3"},
		{"--system=broken/sink-no-token-check"},
		{"--system=lock-per-job"},
		{"--subject=jobs", "--system=broken/renews-twice"},
		{"--steady=5m"},
		{"--processes=16"},
		{"--processes=0x4"},
		{"--processes=4x4,4x4"},
		{"--schedulers=2"},
		{"--subject=jobs", "--processes=4x4"},
		{"--subject=jobs", "--schedulers=x"},
		{"--subject=jobs", "--schedulers=5", "--shards=4"},
		{"--subject=jobs", "--schedulers=1,2,4", "--shards=2"},
		{"--shards=4"},
		{"--ops=10000"},
		{"--subject=recorder", "--contention=extreme"},
		{"--subject=recorder", "--ttl=6s"},
		{"--subject=recorder", "--shards=4"},
		{"--subject=recorder", "--threads=0"},
		{"--subject=recorder", "--rounds=0"},
		{"--subject=checker", "--ops=10"},
		{"--subject=checker", "--ops=10000,10000"},
		{"--subject=checker", "--ops=x"},
		{"--subject=checker", "--threads=8"},
		{"--subject=checker", "--contention=low"},
		{"--subject=checker", "--arm=1s"},
		{"--subject=checker", "--cluster=local"},
		{"--subject=checker", "--rounds=3"},
		{"--subject=checker", "--rounds=0"},
	} {
		root := &cobra.Command{SilenceUsage: true, SilenceErrors: true}
		root.SetFlagErrorFunc(newRootCmd().FlagErrorFunc())
		root.AddCommand(newBenchCmd())
		root.SetArgs(append([]string{"bench"}, args...))
		err := root.ExecuteContext(t.Context())
		var ee *exitError
		if !errors.As(err, &ee) || ee.code != exitUsage {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
}

// benchFlagsOf parses a command line as newBenchCmd does.
func benchFlagsOf(t *testing.T, line string) benchFlags {
	t.Helper()
	var f benchFlags
	fl := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.flags(fl)
	if err := errors.Join(fl.Parse(strings.Fields(line)[2:]), f.belong(fl)); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	return f
}

func TestBenchCommandRepeats(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"bin/fencepost bench --contention=high --seed=7",
		"bin/fencepost bench --contention=low --seed=1 --threads=1,4 --ttl=6s --rounds=5 --arm=1s",
		"bin/fencepost bench --contention=high --seed=7 --processes=",
		"bin/fencepost bench --contention=high --seed=7 --processes=4x2,2x1",
		"bin/fencepost bench --subject=jobs --seed=7 --schedulers=",
		"bin/fencepost bench --subject=jobs --seed=7 --schedulers=2",
		"bin/fencepost bench --contention=low --seed=2 --system=broken/renews-twice",
		"bin/fencepost bench --subject=jobs --seed=7",
		"bin/fencepost bench --subject=jobs --seed=8 --shards=2 --in-flight=50 --steady=5m0s --rate=500 --rounds=6 --arm=1s",
		"bin/fencepost bench --subject=recorder --contention=low --seed=4 --threads=1,4 --arm=1s",
		"bin/fencepost bench --subject=checker --seed=5 --ops=10000,20000 --rounds=6",
		"bin/fencepost bench --subject=jobs --seed=9 --steady=1m0s --rounds=0",
	} {
		suites, err := benchFlagsOf(t, line).suites()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if len(suites) != 1 || suites[0].command != line {
			t.Errorf("%q is repeated by %q", line, suites[0].command)
		}
	}
}

// TestBenchSuiteIsMadeAgain: a process of a benchmark has the arms that the benchmark has.
func TestBenchSuiteIsMadeAgain(t *testing.T) {
	t.Parallel()
	for line, ids := range map[string][]string{
		"bin/fencepost bench --contention=high --threads=2 --ttl=7s --arm=1s":    {"C/16x4", "L/16x4/7s"},
		"bin/fencepost bench --subject=jobs --shards=2,8 --in-flight=7 --seed=9": {"J/2x1", "J/2x2"},
	} {
		suites, err := benchFlagsOf(t, line).suites()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(suites[0].config)
		if err != nil {
			t.Fatal(err)
		}
		var c suiteConfig
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		again, err := c.suite()
		if err != nil {
			t.Fatal(err)
		}
		want := suites[0].Design().Plan
		if got := again.Design().Plan; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
		var spread []string
		for _, a := range want.Arms {
			if a.Processes > 0 {
				spread = append(spread, a.ID)
			}
		}
		if !slices.Equal(spread, ids) {
			t.Errorf("%s: %v in several processes, want %v", line, spread, ids)
		}
	}
	if _, err := (suiteConfig{}).suite(); err == nil {
		t.Error("a suite of nothing")
	}
}
