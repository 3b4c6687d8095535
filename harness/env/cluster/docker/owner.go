package docker

import (
	"context"
	"errors"
	"fencepost/harness/env/osproc"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

const (
	// labelCluster holds the cluster's id, labelOwner the process it belongs to.
	labelCluster = "fencepost.cluster"
	labelOwner   = "fencepost.owner"
)

// owner is a process, named so that a later one cannot be taken for it.
type owner struct {
	pid      int
	start    string // clock ticks since boot
	pidSpace string // PID namespace
	boot     string
}

func (o owner) String() string {
	return fmt.Sprintf("%d/%s/%s/%s", o.pid, o.start, o.pidSpace, o.boot)
}

func parseOwner(s string) (owner, bool) {
	f := strings.Split(s, "/")
	if len(f) != 4 {
		return owner{}, false
	}
	pid, err := strconv.Atoi(f[0])
	return owner{pid, f[1], f[2], f[3]}, err == nil && pid > 0
}

func thisProcess() (owner, error) {
	me, err := osproc.Identify(os.Getpid())
	if err != nil {
		return owner{}, fmt.Errorf("docker: %w", err)
	}
	o := owner{pid: me.PID, start: fmt.Sprint(me.Started)}
	if o.pidSpace, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return o, fmt.Errorf("docker: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return o, fmt.Errorf("docker: %w", err)
	}
	o.boot = strings.TrimSpace(string(boot))
	return o, nil
}

// gone reports that the process has certainly ended, as seen by me. Of another boot
// or PID namespace nothing is certain: a daemon may serve several.
func (o owner) gone(me owner) bool {
	if o.boot != me.boot || o.pidSpace != me.pidSpace {
		return false
	}
	now, err := osproc.Identify(o.pid)
	return errors.Is(err, os.ErrNotExist) || err == nil && fmt.Sprint(now.Started) != o.start
}

// sweep removes the clusters whose owners are gone, and returns how many there were.
func sweep(ctx context.Context, cli *client.Client, me owner) (int, error) {
	dead := map[string]bool{}
	note := func(labels map[string]string) {
		if o, ok := parseOwner(labels[labelOwner]); ok && labels[labelCluster] != "" && o.gone(me) {
			dead[labels[labelCluster]] = true
		}
	}
	having := client.Filters{}.Add("label", labelOwner)
	containers, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: having})
	if err != nil {
		return 0, fmt.Errorf("docker: list containers: %w", err)
	}
	for _, c := range containers.Items {
		note(c.Labels)
	}
	networks, err := cli.NetworkList(ctx, client.NetworkListOptions{Filters: having})
	if err != nil {
		return 0, fmt.Errorf("docker: list networks: %w", err)
	}
	for _, n := range networks.Items {
		note(n.Labels)
	}
	volumes, err := cli.VolumeList(ctx, client.VolumeListOptions{Filters: having})
	if err != nil {
		return 0, fmt.Errorf("docker: list volumes: %w", err)
	}
	for _, v := range volumes.Items {
		note(v.Labels)
	}
	for _, id := range slices.Sorted(maps.Keys(dead)) {
		if err := remove(ctx, cli, id); err != nil {
			return 0, fmt.Errorf("docker: what a killed fencepost has left: %w", err)
		}
	}
	return len(dead), nil
}

// remove ends and removes everything that bears a cluster's label, also what this
// process does not know of because it was interrupted.
func remove(ctx context.Context, cli *client.Client, id string) error {
	having := client.Filters{}.Add("label", labelCluster+"="+id)
	containers, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: having})
	if err != nil {
		return fmt.Errorf("docker: list containers: %w", err)
	}
	errs := make([]error, len(containers.Items))
	var wg sync.WaitGroup
	for i, c := range containers.Items {
		wg.Go(func() {
			_, err := cli.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			errs[i] = unless(err, "remove container", c.ID[:12])
		})
	}
	wg.Wait()
	networks, err := cli.NetworkList(ctx, client.NetworkListOptions{Filters: having})
	errs = append(errs, unless(err, "list networks of", id))
	for _, n := range networks.Items {
		_, err := cli.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		errs = append(errs, unless(err, "remove network", n.Name))
	}
	volumes, err := cli.VolumeList(ctx, client.VolumeListOptions{Filters: having})
	errs = append(errs, unless(err, "list volumes of", id))
	for _, v := range volumes.Items {
		_, err := cli.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
		errs = append(errs, unless(err, "remove volume", v.Name))
	}
	return errors.Join(errs...)
}

// unless is err in words, nil if what was to be removed is not there.
func unless(err error, what, name string) error {
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("docker: %s %s: %w", what, name, err)
}
