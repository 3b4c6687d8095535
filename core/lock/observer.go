package lock

import (
	"fmt"

	"fencepost/core/store"
)

// OpKind is the kind of a conditional request.
type OpKind int

// The kinds. A Read is a SERIAL read; plain reads decide nothing and are not observed.
const (
	Acquire OpKind = iota + 1
	Renew
	Release
	Read
)

func (k OpKind) String() string {
	if names := [...]string{Acquire: "acquire", Renew: "renew", Release: "release", Read: "read"}; k > 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("op(%d)", int(k))
}

// Op is one compare-and-set with all its copies, or one SERIAL read.
type Op struct {
	Kind     OpKind
	Resource string
	// Holder is who the operation is done for, also where To.Holder is "".
	Holder string
	// From is the version named in the condition; nil: the row must not exist.
	From *store.Version
	// To is the version set; zero for a Read.
	To store.Version
	// Takeover: From is another's lease that stood still for its ttl.
	Takeover bool
}

// Result is the end of an Op.
type Result struct {
	Outcome store.Outcome
	// Row is the row that came back with a rejection or a Read; nil: absent or
	// not known.
	Row *store.Version
	// Err is set unless the store answered; also for an answer that settles nothing.
	Err error
	// ServerTimeout: every copy sent has been answered by its coordinator, the
	// last with the server's own timeout, so none is on its way any more.
	ServerTimeout bool
}

// Observer watches a Client. Its methods are called from many goroutines and
// block the request: they should be quick.
type Observer interface {
	// Begin is called before the first copy is sent. The Span's End is called
	// exactly once, possibly long after the caller's own call returned, since
	// abandoned operations are settled in the background.
	Begin(Op) Span
	// LeaseLost: a grant's right ended without a release: at its deadline, by a
	// rejected renewal, or before its caller ever got it.
	LeaseLost(resource, holder string, token int64, cause error)
}

// Span watches one Op.
type Span interface {
	// Sending is called immediately before each copy is handed to the store.
	// The clock for the trust anchor is read before Sending(0).
	Sending(copyNo int)
	// End is called once, when the outcome is settled or given up.
	End(Result)
}

type noObserver struct{}

func (noObserver) Begin(Op) Span                          { return noSpan{} }
func (noObserver) LeaseLost(string, string, int64, error) {}

type noSpan struct{}

func (noSpan) Sending(int) {}
func (noSpan) End(Result)  {}
