package external

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/login"
)

// prepare makes the keyspace of the probes, has every node carry out a conditional
// update and a SERIAL read in it, and notes what weakens a verdict.
func (c *Cluster) prepare(ctx context.Context) error {
	cfg := c.base
	cfg.Keyspace = ""
	cfg.RequestTimeout = 6 * requestTimeout // changes of the schema take their time
	db, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return connecting("", c.login, true, err)
	}
	defer db.Close()
	if err := c.tellStale(ctx, db); err != nil {
		return err
	}
	c.progress("making keyspace " + c.base.Keyspace + " for probes, with " + c.info["replication"])
	if err := db.Exec(ctx, fmt.Sprintf("CREATE KEYSPACE %s WITH replication = %s", c.base.Keyspace, c.info["replication"])); err != nil {
		return using("", "create a keyspace", c.login, err)
	}
	c.made = true
	if err := db.Exec(ctx, "CREATE TABLE "+c.base.Keyspace+".rows (id text PRIMARY KEY, at bigint)"); err != nil {
		return using("", "create a table in its own keyspace", c.login, err)
	}
	settings := map[string][]string{}
	var clocks []string
	for _, n := range c.nodes {
		where := n.name + " (" + n.addr + ")"
		if err := n.update(ctx); err != nil {
			return using(where, "a conditional update and a read at SERIAL", c.login, err)
		}
		offset, within, err := n.clock(ctx)
		if err != nil {
			return using(where, "ask for the time", c.login, err)
		}
		clocks = append(clocks, fmt.Sprintf("%s %+d ms ± %d", n.name, offset.Milliseconds(), within.Milliseconds()))
		if offset.Abs() > within+clockNote {
			c.note("the clock of %s is %s off this machine's: its log's times do not compare with this run's; and if the nodes' clocks differ from each other, conditional updates may wait or fail, as Cassandra's ballots are made of times", n.name, offset.Round(time.Millisecond))
		}
		for _, name := range []string{paxosVariant, commitlogSync} {
			if v := n.setting(ctx, name); !slices.Contains(settings[name], v) {
				settings[name] = append(settings[name], v)
			}
		}
	}
	c.info["clocks"] = strings.Join(clocks, ", ") + " (off this machine's)"
	c.judge(settings)
	return nil
}

// Settings of nodes, as Cassandra names them.
const (
	paxosVariant  = "paxos_variant"
	commitlogSync = "commitlog_sync"
)

// clockNote is from when on a wrong clock is worth a note.
const clockNote = 500 * time.Millisecond

// judge notes what the nodes' settings and number mean for a verdict; a setting that
// cannot be read is "".
func (c *Cluster) judge(settings map[string][]string) {
	c.note("the nodes, their links and their clocks are not under control: this run shows nothing about dead or isolated nodes")
	if n := len(c.nodes); n < 3 {
		c.note("rows have %d of the usual three replicas: little can differ between them, so this run shows less than one on three nodes", n)
	}
	paxos, sync := settings[paxosVariant], settings[commitlogSync]
	switch {
	case slices.Contains(paxos, ""):
		c.note("the Paxos variant is not known: %s", readable(c.login))
	case len(paxos) > 1:
		c.note("the nodes differ in their Paxos variant (%s): their agreement is not what either promises", strings.Join(paxos, ", "))
	case strings.Contains(paxos[0], "without_linearizable_reads"):
		c.note("Paxos variant %s gives up linearizable reads: a violation may be the database's (docs/paxos.md)", paxos[0])
	}
	switch {
	case slices.Contains(sync, ""):
		c.note("how the commit log is synced is not known: %s", readable(c.login))
	case slices.Contains(sync, "periodic"):
		c.note("commitlog_sync is periodic: a node that is killed or loses power forgets what it has acknowledged last, also conditional updates; batch or group keep it")
	}
	for name, key := range map[string]string{paxosVariant: paxosVariant, commitlogSync: "commit_log"} {
		if !slices.Contains(settings[name], "") {
			c.info[key] = strings.Join(settings[name], ", ")
		}
	}
}

func readable(l login.Login) string {
	if l.Username == "" {
		return "system_views.settings does not tell it"
	}
	return "system_views.settings does not tell it, or " + l.Username + " may not read it (" + GrantSettings(l.Username) + ")"
}

func (c *Cluster) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// tellStale tells of keyspaces of earlier runs. They are left alone: they may be of
// runs that are live elsewhere, or kept for a look.
func (c *Cluster) tellStale(ctx context.Context, db *cassandra.DB) error {
	rows, err := db.Query(ctx, false, "SELECT keyspace_name FROM system_schema.keyspaces")
	if err != nil {
		return using("", "read the list of keyspaces", c.login, err)
	}
	var stale []string
	for _, r := range rows {
		if s, _ := r["keyspace_name"].(string); strings.HasPrefix(s, Prefix) {
			stale = append(stale, s)
		}
	}
	if len(stale) > 0 {
		slices.Sort(stale)
		c.progress(fmt.Sprintf("! found %d keyspaces of other runs, left alone: %s. If none of them is live or was kept: DROP KEYSPACE %s;", len(stale), strings.Join(stale, ", "), stale[0]))
	}
	return nil
}

// clock is by how much the node's wall clock is ahead of this machine's, and how
// precisely that is known.
func (n *node) clock(ctx context.Context) (offset, within time.Duration, err error) {
	db, err := n.session(ctx)
	if err != nil {
		return 0, 0, err
	}
	before := time.Now()
	rows, err := db.Query(ctx, false, "SELECT toTimestamp(now()) AS at FROM system.local")
	took := time.Since(before)
	if err != nil {
		return 0, 0, err
	}
	if len(rows) != 1 {
		return 0, 0, fmt.Errorf("%d rows in system.local", len(rows))
	}
	at, ok := rows[0]["at"].(time.Time)
	if !ok {
		return 0, 0, fmt.Errorf("the time is a %T", rows[0]["at"])
	}
	return at.Sub(before.Add(took / 2)), took/2 + time.Millisecond, nil
}

// setting is one of the node's, "" if it cannot be read.
func (n *node) setting(ctx context.Context, name string) string {
	db, err := n.session(ctx)
	if err != nil {
		return ""
	}
	rows, err := db.Query(ctx, false, "SELECT value FROM system_views.settings WHERE name = ?", name)
	if err != nil || len(rows) != 1 {
		return ""
	}
	v, _ := rows[0]["value"].(string)
	return v
}
