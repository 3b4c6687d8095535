package sinks

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"fencepost/core/sink"
	cassandrasink "fencepost/core/sink/cassandra"
	"fencepost/core/store/cassandra"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/postgres"
	"fencepost/harness/record/history"
	"fencepost/harness/target/system"
	"fencepost/harness/target/system/unfenced"
	"fencepost/internal/choice"
)

// Names of the kinds.
const (
	Cassandra = "cassandra"
	HTTP      = "http"
	Postgres  = "postgres"
)

// Kind is a type of sink that a run can use.
type Kind struct {
	// Name is also that of its package, below core/sink.
	Name, About string
	// Find looks for the server that Start starts, on the machine and in the directory where
	// scripts/fetch-NAME puts one, and says which it is; nil: the tool has it.
	Find func(ctx context.Context, cache string) (string, error)
	// Remedy is what to do if Find finds none.
	Remedy string
	// Start starts the service that the sink is; nil if the sink is on the run's nodes.
	Start func(ctx context.Context, o Options) (*osproc.Service, error)
	// Greeting is what the service answers, with whatever, before it knows who asks. Nil
	// without a service.
	Greeting []byte
	// Open connects a process to the sink: a worker by its own link, the runner directly.
	Open func(ctx context.Context, at Place) (Client, error)
	// Rival opens sessions of somebody else in the sink's database; nil: it is in none.
	Rival func(ctx context.Context, at Place) (Rival, error)
	// Admin opens sessions of the database's administrator; nil as Rival.
	Admin func(ctx context.Context, s *osproc.Service) (Admin, error)
	// Answer is what a worker asked the service and was answered, as a note, from what its link
	// carried; false for what is neither. Nil: links to this sink are not read.
	Answer func(worker string, x httptap.Exchange) (history.Event, bool)
}

// Options are what a service needs to start.
type Options struct {
	BinDir string // of the tool's executables
	Log    string // the file for what its processes print
	// Unfenced: a known-broken variant, or a program of a user's own, will write past its
	// rules; a service that has to be built for that is started in that build.
	Unfenced bool
	// Broken is what is broken in the service itself (system.System.BrokenSink), "" for nothing.
	Broken string
	// Ended is called when a life of it has ended, with how; nil: nobody is told.
	Ended func(*history.ProcessLife)
}

// Place is where a process finds the sink.
type Place struct {
	// Nodes opens a session with the run's nodes by this process's links, for a sink that
	// is on them. The session is the client's from then on.
	Nodes func(ctx context.Context) (*cassandra.DB, error)
	// Addr is that of the service, or of the link to it: "ip:port".
	Addr string
	// Secret is the service's (osproc.Service).
	Secret string
	// Timeout bounds the wait for the answer to one copy of a request. Default: the sink's.
	Timeout time.Duration
}

// Client is a process's connection to the sink.
type Client interface {
	sink.Sink
	// Unfenced is how a known-broken variant writes past the sink's rules.
	unfenced.Writer
	Close()
}

var kinds = []Kind{
	{
		Name: Cassandra, Open: openCassandra,
		About: "rows beside the locks, by lightweight transactions; workers reach it by separate links to the nodes",
	},
	{
		Name: HTTP, Start: startHTTP, Greeting: httpGreeting, Open: openHTTP, Answer: answerHTTP,
		About: "a remote service that enforces the headers Fencing-Token and Idempotency-Key (core/sink/http); a separate process",
	},
	{
		Name: Postgres, Start: startPostgres, Greeting: postgres.Greeting, Open: openPostgres,
		About: "rows of a PostgreSQL database, by one transaction per decision; a separate server",
		Rival: rivalOfPostgres, Admin: adminOfPostgres,
		Find: findPostgres, Remedy: "install PostgreSQL, or run scripts/fetch-postgres",
	},
}

// Kinds are all there are, the default first.
func Kinds() []Kind { return kinds }

// Names are those of the kinds, the default first.
func Names() []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.Name)
	}
	return out
}

// Find returns a kind by name; "" is the default.
func Find(name string) (Kind, error) {
	if name == "" {
		return kinds[0], nil
	}
	for _, k := range kinds {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, choice.Unknown("sink", name, Names()...)
}

// bound are the systems that can have one kind of sink only, and why. The text names the
// system and the refused sink.
var bound = []struct {
	has       func(system.System) bool
	kind, why string
}{
	{designed(system.Exec), HTTP, // which every language speaks
		"system %s supports only the sink " + HTTP + ", not %s"},
	{func(s system.System) bool { return s.BrokenSink != "" }, HTTP,
		"system %s is broken in the service of the sink " + HTTP + ", so it supports only that sink, not %s"},
	{designed(system.LockPerJob), Cassandra,
		"system %s writes its effects into rows of the sink " + Cassandra + " itself, so it supports only that sink, not %s"},
}

func designed(design string) func(system.System) bool {
	return func(s system.System) bool { return s.Design() == design }
}

// Of returns the sink that a run of a system has: the named one, or if none is named the
// system's own. A system that cannot have it is an error.
func Of(name string, sys system.System) (Kind, error) {
	only := sys.Sink
	if only != "" && cmp.Or(name, only) != only {
		return Kind{}, fmt.Errorf("system %s is wrong in how it uses the sink %s, so it supports only that sink, not %s", sys.Name, only, name)
	}
	for _, b := range bound {
		if !b.has(sys) {
			continue
		}
		if k, err := Find(cmp.Or(name, b.kind)); err == nil && k.Name != b.kind {
			return k, fmt.Errorf(b.why, sys.Name, k.Name)
		}
		only = b.kind
	}
	return Find(cmp.Or(name, only))
}

// OnNodes is the sink that is on the run's nodes.
type OnNodes struct {
	*cassandrasink.Sink
	unfenced.Writer
	DB *cassandra.DB
}

func openCassandra(ctx context.Context, at Place) (Client, error) {
	db, err := at.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return &OnNodes{Sink: cassandrasink.New(db, cassandrasink.Options{RequestTimeout: at.Timeout}), Writer: unfenced.Rows(db), DB: db}, nil
}

// Close implements Client.
func (c *OnNodes) Close() { c.DB.Close() }
