package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/harness/env/osproc"
	"fencepost/harness/env/postgres"
)

// Admin is the administrator of the sink's database: who changes settings of the server, and
// reads in its log what comes of that in the sessions of others. Not for concurrent use.
type Admin interface {
	// Set gives all sessions a setting, open ones too; "" takes it back.
	Set(setting, value string) error
	// Shown is what a session shows of a setting that has been open since the administrator
	// came, and what a new one does.
	Shown(ctx context.Context, setting string) (open, fresh string, err error)
	// Crowd takes the sink's table again and again, each time for so long, and nobody else
	// reads or writes it meanwhile; until Clear. The waiting come to it in between.
	Crowd(hold time.Duration) error
	Clear() error
	// Crowded says whether somebody has the table for itself, or waits to, by the server's own
	// table of locks; and for how long Crowd has had it at the longest.
	Crowded(ctx context.Context) (now bool, longest time.Duration, err error)
	// Cancelled is how many statements of others the server has ended since it was last asked,
	// as they took longer than statement_timeout; by its log.
	Cancelled() (int, error)
	// Watch has the sessions of others write into the server's log what Decisions counts.
	Watch(ctx context.Context) error
	// Decisions are those of others since it was last asked; by the server's log.
	Decisions() (map[Isolation]int, error)
	Close()
}

// Isolation is under which isolation level something was decided.
type Isolation struct {
	Default string // of the session
	Level   string // of the transaction
}

type adminPostgres struct {
	service        *osproc.Service
	open, crowding *pgx.Conn
	log            int64 // the log is read so far
	watching       bool

	stop    context.CancelFunc // of Crowd; nil: there is none
	ended   chan error
	longest atomic.Int64
}

// adminOfPostgres opens its sessions past all links.
func adminOfPostgres(ctx context.Context, s *osproc.Service) (_ Admin, err error) {
	a := &adminPostgres{service: s}
	for _, c := range []**pgx.Conn{&a.open, &a.crowding} {
		if *c, err = a.connect(ctx); err != nil {
			a.Close()
			return nil, fmt.Errorf("a session of the administrator: %w", err)
		}
	}
	// What it sets is for others.
	if _, err = a.crowding.Exec(ctx, "SET statement_timeout = 0"); err == nil {
		_, err = a.read()
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func (a *adminPostgres) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, postgres.ConnString(a.service.Addr(), a.service.Secret))
}

func (a *adminPostgres) Set(setting, value string) error {
	return postgres.Configure(a.service, setting, value)
}

func (a *adminPostgres) Shown(ctx context.Context, setting string) (open, fresh string, err error) {
	if open, err = show(ctx, a.open, setting); err != nil {
		return "", "", err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return "", "", err
	}
	defer c.Close(ctx)
	fresh, err = show(ctx, c, setting)
	return open, fresh, err
}

func show(ctx context.Context, c *pgx.Conn, setting string) (value string, err error) {
	err = c.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value)
	return value, err
}

func (a *adminPostgres) Crowd(hold time.Duration) error {
	if a.stop != nil {
		return errors.New("the table is crowded already")
	}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.ended = make(chan error, 1)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = a.take(ctx, hold)
		}
		a.ended <- err
	}()
	return nil
}

// take has the table for itself once. It asks for the next time while those who have waited are
// at it: what they ask for then is behind it again.
func (a *adminPostgres) take(ctx context.Context, hold time.Duration) error {
	return pgx.BeginFunc(context.Background(), a.crowding, func(tx pgx.Tx) error {
		if _, err := tx.Exec(context.Background(), "LOCK TABLE fencepost_sink IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		since := time.Now()
		select {
		case <-time.After(hold):
		case <-ctx.Done():
		}
		a.longest.Store(max(a.longest.Load(), int64(time.Since(since))))
		return nil
	})
}

func (a *adminPostgres) Clear() error {
	if a.stop == nil {
		return nil
	}
	a.stop()
	a.stop = nil
	return <-a.ended
}

func (a *adminPostgres) Crowded(ctx context.Context) (now bool, longest time.Duration, err error) {
	const locked = `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'fencepost_sink'::regclass AND mode = 'AccessExclusiveLock')`
	err = a.open.QueryRow(ctx, locked).Scan(&now)
	return now, time.Duration(a.longest.Load()), err
}

var logLine = regexp.MustCompile(`(?m)^.*? \[(\d+)\] .*?(?:ERROR|LOG):  (.*)$`)

// read returns what sessions have had logged since it was last called, without the administrator's
// own.
func (a *adminPostgres) read() (out []string, err error) {
	f, err := os.Open(a.service.Log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	got := make([]byte, max(end-a.log, 0))
	if _, err := f.ReadAt(got, a.log); err != nil {
		return nil, err
	}
	text := string(got)
	text = text[:strings.LastIndexByte(text, '\n')+1] // the rest is still being written
	a.log += int64(len(text))
	own := []uint32{a.open.PgConn().PID(), a.crowding.PgConn().PID()}
	for _, m := range logLine.FindAllStringSubmatch(text, -1) {
		pid, err := strconv.ParseUint(m[1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the server's log: %w", err)
		}
		if !slices.Contains(own, uint32(pid)) {
			out = append(out, m[2])
		}
	}
	return out, nil
}

func (a *adminPostgres) Cancelled() (n int, err error) {
	lines, err := a.read()
	for _, l := range lines {
		if l == "canceling statement due to statement timeout" {
			n++
		}
	}
	return n, err
}

// Each session that writes into the ledger says in the log, to nobody else, what it goes by.
const (
	watch = `
CREATE FUNCTION fencepost_says_isolation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE LOG 'fencepost: default %, level %', current_setting('default_transaction_isolation'), current_setting('transaction_isolation');
	RETURN NULL;
END $$;
CREATE TRIGGER fencepost_says_isolation AFTER INSERT ON fencepost_sink_ledger EXECUTE FUNCTION fencepost_says_isolation()`
	unwatch = `DROP FUNCTION fencepost_says_isolation CASCADE`
)

var isolationLine = regexp.MustCompile(`^fencepost: default (.*), level (.*)$`)

func (a *adminPostgres) Watch(ctx context.Context) error {
	_, err := a.crowding.Exec(ctx, watch)
	a.watching = err == nil
	return err
}

func (a *adminPostgres) Decisions() (map[Isolation]int, error) {
	lines, err := a.read()
	out := map[Isolation]int{}
	for _, l := range lines {
		if m := isolationLine.FindStringSubmatch(l); m != nil {
			out[Isolation{Default: m[1], Level: m[2]}]++
		}
	}
	return out, err
}

// Close takes all back but what Set has set.
func (a *adminPostgres) Close() {
	_ = a.Clear() // a caller that cares has asked before
	if a.watching {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, _ = a.crowding.Exec(ctx, unwatch) // a log that says more than is asked harms nobody
		cancel()
	}
	for _, c := range []*pgx.Conn{a.open, a.crowding} {
		if c != nil {
			_ = c.Close(context.Background())
		}
	}
}
