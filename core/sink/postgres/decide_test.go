package postgressink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"fencepost/core/sink"
	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnswer: a stale answer is final for the only copy alone.
func TestAnswer(t *testing.T) {
	t.Parallel()
	c, err := newCall(sink.Call{Resource: "r", Issuer: "i", Token: 4, Effect: &sink.Effect{Key: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	stale := sink.Decide(sink.Header{Issuer: "i", Highest: 5, Seq: 7}, nil, c.Call)
	if a, err := c.answer(stale); err != nil || a.Result != sink.Stale {
		t.Errorf("%+v, %v", a, err)
	}
	c.uncertain = 1
	if a, err := c.answer(stale); a.Result != sink.Stale || !errors.Is(err, sink.ErrStaleAfterUnknown) || sink.OutcomeOf(a, err) != store.Unknown {
		t.Errorf("%+v, %v", a, err)
	}
	other := sink.Decide(sink.Header{Issuer: "j", Highest: 1, Seq: 1}, nil, c.Call)
	if a, err := c.answer(other); sink.OutcomeOf(a, err) != store.Fail || !errors.As(err, new(*sink.IssuerError)) {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestSlowApply: a function that is cut off by the time limit of a try has one more, and is
// an error then; one that the caller ends itself is the caller's matter.
func TestSlowApply(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithTimeoutCause(t.Context(), time.Nanosecond, errTryEnded)
	defer cancel()
	<-over.Done()
	cancelled, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		slow bool
	}{
		"the client's limit":    {over, context.DeadlineExceeded, true},
		"it ignores the limit":  {over, errTryEnded, true},
		"statement_timeout":     {t.Context(), pgError("57014"), true},
		"idle_in_transaction":   {t.Context(), pgError("25P03"), true},
		"the caller's own end":  {cancelled, context.Canceled, false},
		"the server shuts down": {t.Context(), pgError("57P01"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call, err := newCall(sink.Call{Resource: "r", Issuer: "i", Token: 4, Effect: &sink.Effect{Key: "k"}})
			if err != nil {
				t.Fatal(err)
			}
			for try := 1; try <= maxSlow; try++ {
				var final finalError
				ended := errors.As(call.applyError(c.ctx, nil, c.err), &final)
				if ended != (c.slow && try == maxSlow) || ended && (!errors.Is(final.error, ErrSlow) || store.OutcomeOf(final.error) != store.Fail) {
					t.Errorf("try %d: %v", try, final.error)
				}
			}
		})
	}
}

// unsent is an error of pgx from before anything was sent.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

func pgError(code string) error {
	return fmt.Errorf("commit: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: "m"})
}

// TestOutcomes: every kind of error, of a COMMIT and of what comes before it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		commit  store.Outcome
		passing bool
	}{
		"the connection was closed":         {io.ErrUnexpectedEOF, store.Unknown, true},
		"the connection was reset":          {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, store.Unknown, true},
		"no answer in time":                 {fmt.Errorf("timeout: %w", context.DeadlineExceeded), store.Unknown, true},
		"a deadline of the connection":      {os.ErrDeadlineExceeded, store.Unknown, true},
		"cancelled":                         {context.Canceled, store.Unknown, true},
		"nothing was sent":                  {unsent{errors.New("conn closed")}, store.Fail, true},
		"rolled back, as it had failed":     {pgx.ErrTxCommitRollback, store.Fail, false},
		"serialization failure":             {pgError("40001"), store.Fail, true},
		"deadlock":                          {pgError("40P01"), store.Fail, true},
		"the server does not know":          {pgError("40003"), store.Unknown, true},
		"connection exception":              {pgError("08006"), store.Unknown, true},
		"shutdown":                          {pgError("57P01"), store.Unknown, true},
		"another process crashed":           {pgError("57P02"), store.Unknown, true},
		"starting up":                       {pgError("57P03"), store.Unknown, true},
		"cancelled by the server":           {pgError("57014"), store.Unknown, true},
		"too many connections":              {pgError("53300"), store.Unknown, true},
		"disk full":                         {pgError("53100"), store.Unknown, true},
		"I/O error":                         {pgError("58030"), store.Unknown, true},
		"internal error":                    {pgError("XX000"), store.Unknown, true},
		"lock_timeout":                      {pgError("55P03"), store.Unknown, true},
		"idle_in_transaction":               {pgError("25P03"), store.Unknown, true},
		"a standby":                         {pgError("25006"), store.Unknown, true},
		"a deferred constraint":             {pgError("23503"), store.Fail, false},
		"raised by a deferred trigger":      {pgError("P0001"), store.Fail, false},
		"division by zero in one":           {pgError("22012"), store.Fail, false},
		"no such table":                     {pgError("42P01"), store.Unknown, false},
		"no right":                          {pgError("42501"), store.Unknown, false},
		"wrong password":                    {pgError("28P01"), store.Unknown, false},
		"no such database":                  {pgError("3D000"), store.Unknown, false},
		"in a failed transaction":           {pgError("25P02"), store.Unknown, false},
		"a code that is none":               {pgError("4"), store.Unknown, true},
		"a column that does not fit":        {pgx.ScanArgError{ColumnIndex: 1, Err: errors.New("x")}, store.Unknown, false},
		"what nobody has ever heard of yet": {errors.New("x"), store.Unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := commitOutcome(c.err); got != c.commit {
				t.Errorf("of a COMMIT: %s, want %s", got, c.commit)
			}
			if got := passing(c.err); got != c.passing {
				t.Errorf("passing: %t, want %t", got, c.passing)
			}
		})
	}
	if commitOutcome(nil) != store.OK {
		t.Error("a COMMIT without an error")
	}
}

// TestCallEnds: what a call says when its context ends.
func TestCallEnds(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	for uncertain, want := range map[int]store.Outcome{0: store.Fail, 1: store.Unknown, 3: store.Unknown} {
		c, err := newCall(sink.Call{Resource: "r", Issuer: "i", Token: 1})
		if err != nil {
			t.Fatal(err)
		}
		c.uncertain = uncertain
		if end := c.ended(over, io.EOF); store.OutcomeOf(end) != want || !errors.Is(end, why) || !errors.Is(end, io.EOF) {
			t.Errorf("after %d commits without an answer: %v, want %s", uncertain, end, want)
		}
	}
}
