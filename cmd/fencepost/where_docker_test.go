package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/docker"
)

// Without a daemon, auto says what it tried and what to do about each.
func TestNeitherLocalNorDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
	cannot := errors.New("no user namespaces\nremedy: as root")
	_, _, err := insteadOfLocal(t.Context(), "auto", cannot)
	if err == nil || !errors.Is(err, cannot) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"no user namespaces", "remedy: as root", "unix:///nowhere/docker.sock", "install Docker"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, _, err := insteadOfLocal(t.Context(), "local", cannot); !errors.Is(err, cannot) || strings.Contains(err.Error(), "nowhere") {
		t.Errorf("who asked for local gets: %v", err)
	}
	f := checkDocker(t.Context())
	if !strings.Contains(f.detail, "no such socket") || !strings.Contains(f.remedy, "install Docker") || f.needed {
		t.Errorf("doctor says: %+v", f)
	}
	_, _, err = startDocker(t.Context(), docker.Config{}, io.Discard)
	var de *docker.DaemonError
	if !errors.As(err, &de) {
		t.Errorf("a run on containers: %v", err)
	}
}

func TestDockerChosen(t *testing.T) {
	where, why, err := chooseCluster(t.Context(), "docker")
	if where != "docker" || why != "as asked" || err != nil {
		t.Errorf("%s, %s, %v", where, why, err)
	}
}

func TestUpRefusesUnknownCluster(t *testing.T) {
	for _, args := range [][]string{
		{"up", "--cluster=podman"}, {"up", "--cluster=up"},
		{"up", "--datacenters=3,x"}, {"up", "--datacenters=3,0"}, {"up", "--datacenters=3,1", "--cluster=docker"}, {"up", "--datacenters=3,1", "--schedulers=3"},
	} {
		cmd := newRootCmd()
		cmd.SetArgs(args)
		if code := exitCode(cmd.ExecuteContext(t.Context()), io.Discard); code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, exitUsage)
		}
	}
}

// A kept cluster that is started in the background is the one that was asked for.
func TestUpArgs(t *testing.T) {
	o := upOptions{paxos: "v2", heapMiB: 512, seed: 3, cluster: "docker", image: "x:1", layout: cluster.Plain()}
	got, want := strings.Join(o.args(), " "), "up --paxos=v2 --heap=512 --seed=3 --cluster=docker --image=x:1"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	o.layout = cluster.Layout{3, 1}
	if got = strings.Join(o.args(), " "); got != want+" --datacenters=3,1" {
		t.Errorf("%s\nwant %s --datacenters=3,1", got, want)
	}
}

type withInfo struct {
	cluster.Cluster
	image string
}

func (w withInfo) Info() map[string]string { return map[string]string{"image": w.image} }

func TestDockerAgain(t *testing.T) {
	for image, want := range map[string]string{docker.DefaultImage: " CLUSTER=docker", "own:1": " CLUSTER=docker IMAGE=own:1"} {
		if got := dockerAgain(withInfo{image: image}); got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}

func TestStartDockerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := startDocker(ctx, docker.Config{}, io.Discard); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("%v", err)
	}
}
