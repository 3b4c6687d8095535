package fault

import (
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/target/fleet"
)

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
