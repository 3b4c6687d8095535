package fault

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/target/fleet"
)

// startService starts a process that answers anything.
func startService(t *testing.T) *osproc.Service {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := osproc.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	s := &osproc.Service{
		Name: "the test's service", Address: addr, Log: filepath.Join(t.TempDir(), "log"), Dir: t.TempDir(),
		Command: func() *exec.Cmd {
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), serviceEnv+"="+addr)
			return cmd
		},
		Ready: func(ctx context.Context) error {
			_, err := greet(ctx, addr, HTTPOptions, nil)
			return err
		},
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Faults of the sink's process are seen when they were done, and when they were not.
func TestFaultsOfSinkMustProveThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  string
		inert  bool
		proven bool
		probe  string
		after  string
	}{
		"kill":         {"kill-sink", false, true, "its port refuses connections", ""},
		"kill nobody":  {"kill-sink", true, false, "still runs, in state", ""},
		"pause":        {"pause-sink", false, true, "the sink answered a request before, and does not now", "the sink answers again"},
		"pause nobody": {"pause-sink", true, false, "does not stand still", "the sink answers again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := (&Env{Sink: startService(t), SinkGreeting: HTTPOptions}).Ready()
			if c.inert {
				env.Inert = FamilySink
			}
			mustProve(t, env, Spec{Fault: c.fault, Targets: []string{SinkTarget}}, 0, proofs{c.proven, c.probe, true, c.after})
			if _, err := greet(t.Context(), env.Sink.Addr(), HTTPOptions, nil); err != nil {
				t.Errorf("it does not answer when it is over: %v", err)
			}
		})
	}
}

// Silence shows a stop only of what had answered.
func TestSilenceOfWhatWasSilent(t *testing.T) {
	t.Parallel()
	ev := Evidence{Proven: true}
	service{name: "n1", before: errors.New("no answer")}.silent(t.Context(), &ev)
	if ev.Proven || !strings.Contains(ev.Text, "n1 did not answer before either") {
		t.Errorf("%+v", ev)
	}
}

// noNodes is a cluster as far as links of workers are concerned.
type noNodes struct{ cluster.Cluster }

func (noNodes) Nodes() []cluster.Node { return nil }

// Faults of the sink act on the one link by which a worker reaches a sink that is a service.
func TestSinkLinkOfService(t *testing.T) {
	t.Parallel()
	links := link.NewFabric(link.Options{})
	f, err := fleet.New(fleet.Config{Sink: "127.0.0.1:9", Workers: 2, Links: links})
	if err != nil {
		t.Fatal(err)
	}
	of, err := (&Env{Cluster: noNodes{}, Fleet: f, WorkerLinks: links}).workerLinks([]string{"w2"})
	if err != nil || len(of.sink) != 1 || of.sink[0].Name() != "w2->sink/sink" || len(of.lock)+len(of.beat) > 0 {
		t.Errorf("%+v, %v", of, err)
	}
	if err := links.Close(); err != nil {
		t.Error(err)
	}
}
