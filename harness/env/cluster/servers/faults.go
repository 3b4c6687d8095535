package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fencepost/harness/env/cluster"
)

// Cannot is why servers of a store cannot have a fault that needs more of them than to start and
// to end, by fault; "": they can.
type Cannot struct {
	// LoseData: a server that has lost all that it stored cannot simply start again.
	LoseData string
	// ServerClock: a server's wall clock cannot be set (Kind.Now).
	ServerClock string
	// Promote: no server is another's replica that waits for somebody to promote it (Kind.Role,
	// Kind.Promote).
	Promote string
}

// Reasons that several stores have.
const (
	inGo       = "a server in Go asks the kernel for the time, not the C library"
	elects     = "its servers elect the one that decides themselves"
	noReplicas = "none of its servers is another's replica"
)

// Role is what a server says that it is to the others.
type Role struct {
	Primary bool
	// InSync is of a replica that has a link to its primary and has caught up once.
	InSync bool
	// Text is what it says.
	Text string
}

// index is a server's number, by its name.
func (c *Cluster) index(node string) (int, error) {
	i := slices.IndexFunc(c.nodes, func(n *server) bool { return n.Name() == node })
	if i < 0 {
		return 0, fmt.Errorf("no node %s", node)
	}
	return i, nil
}

// Mark writes a key into a server, past all links. taken is false of one that takes none for
// itself, as it has all that it stores from another, and of a store of which all servers are so.
func (c *Cluster) Mark(ctx context.Context, node, key string) (taken bool, err error) {
	i, err := c.index(node)
	if err != nil || c.Kind.Mark == nil {
		return false, err
	}
	return c.Kind.Mark(ctx, c.site(), i, key)
}

// Marked says whether a server has a key.
func (c *Cluster) Marked(ctx context.Context, node, key string) (bool, error) {
	i, err := c.index(node)
	if err != nil {
		return false, err
	}
	if c.Kind.Marked == nil {
		return false, fmt.Errorf("%s gives its servers no keys for themselves", c.Kind.Name)
	}
	return c.Kind.Marked(ctx, c.site(), i, key)
}

// Lose removes all that a server without a process has stored. Its files are laid again when it
// starts.
func (c *Cluster) Lose(node string) error {
	i, err := c.index(node)
	if err != nil {
		return err
	}
	if why := c.Kind.Cannot.LoseData; why != "" {
		return fmt.Errorf("%s cannot lose its data: %s", node, why)
	}
	if c.nodes[i].PID() != 0 {
		return &cluster.StateError{Node: node, Op: "remove the data of", State: c.nodes[i].State()}
	}
	return os.RemoveAll(c.Site.DataDir(i))
}

// Stored says whether a server's directory of data is there.
func (c *Cluster) Stored(node string) (bool, error) {
	i, err := c.index(node)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(c.Site.DataDir(i))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Role asks a server what it is to the others.
func (c *Cluster) Role(ctx context.Context, node string) (Role, error) {
	i, err := c.index(node)
	if err != nil {
		return Role{}, err
	}
	if c.Kind.Role == nil {
		return Role{}, fmt.Errorf("%s is no replica: %s", node, c.Kind.Cannot.Promote)
	}
	return c.Kind.Role(ctx, c.site(), i)
}

// Promote makes a replica the primary. Servers that start from now on follow it.
func (c *Cluster) Promote(ctx context.Context, node string) error {
	i, err := c.index(node)
	if err != nil {
		return err
	}
	if c.Kind.Promote == nil {
		return fmt.Errorf("%s cannot be promoted: %s", node, c.Kind.Cannot.Promote)
	}
	if err := c.Kind.Promote(ctx, c.site(), i); err != nil {
		return fmt.Errorf("promote %s: %w", node, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Site.Primary = i
	return nil
}

// site is where the servers are now.
func (c *Cluster) site() Site {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Site
}

// faketimeEnv has the C library's clock show what a file says. The monotonic clock stays as it is: only
// a wall clock is set. The file is read at each look, so that a jump is one; what programs learn of files
// is left alone. The C library comes before all others, so that its malloc is used: jemalloc, which Debian's
// Redis has, asks for the time while it begins, and libfaketime, which begins then, for memory.
func (c *Cluster) faketimeEnv(i int) []string {
	if c.faketime == "" {
		return nil
	}
	return []string{
		"LD_PRELOAD=" + c.faketime + ":libc.so.6", "FAKETIME_TIMESTAMP_FILE=" + c.clockFile(i),
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
	}
}

func (c *Cluster) clockFile(i int) string { return filepath.Join(c.Site.Dirs[i], "clock") }

// sharedMemory is where libfaketime makes files that a killed process leaves. There is a file
// system of its own on it while the servers run.
const (
	sharedMemory     = "/dev/shm"
	sharedMemorySize = 1 << 20
)

// SetClock sets a server's wall clock wrong by whole seconds.
func (c *Cluster) SetClock(node string, offset time.Duration) error {
	i, err := c.index(node)
	if err != nil {
		return err
	}
	if c.faketime == "" {
		return fmt.Errorf("the servers were started with clocks that cannot be set (%s)", Faketime)
	}
	if offset%time.Second != 0 {
		return fmt.Errorf("a clock is set by whole seconds, not by %s", offset)
	}
	return c.setClock(i, offset)
}

// setClock replaces the file: half of it is never read.
func (c *Cluster) setClock(i int, offset time.Duration) error {
	next := c.clockFile(i) + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", offset/time.Second), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.clockFile(i))
}

// Now is the time by a server's wall clock.
func (c *Cluster) Now(ctx context.Context, node string) (time.Time, error) {
	i, err := c.index(node)
	if err != nil {
		return time.Time{}, err
	}
	if c.Kind.Now == nil {
		return time.Time{}, fmt.Errorf("%s is not asked for the time: %s", node, c.Kind.Cannot.ServerClock)
	}
	return c.Kind.Now(ctx, c.site(), i)
}
