package own

import (
	"time"

	"fencepost/harness/target/control"
)

// Trial is what a run that tries a program out has seen of it, beside the run's history.
type Trial struct {
	// Offer is what its setup said; nil: it did not come so far.
	Offer *Offer
	// Ready is how long its first life took to be ready; 0: it was not.
	Ready time.Duration
	// Stands are of the points that it offers, one each.
	Stands []Stand
	// Sent are of all acquires and releases that set an attempt of their own.
	Sent []Sent
}

// Stand is a client that was kept waiting at a point.
type Stand struct {
	Point control.Point
	Proc  string // "": nobody came
	Key   string
	At    int64 // when it asked, as history.Now
	Went  int64 // when it was answered
	// Hold is for how long it was told to work, at holding.
	Hold time.Duration
}

// Sent is when the request of an operation first came to the links of its worker.
type Sent struct {
	Proc string
	ID   int64
	At   int64 // as history.Now; 0: it never came
}

// What a Mistake can be about.
const (
	MistakeSetup   = "setup"
	MistakeReady   = "ready"
	MistakeHistory = "history"
	MistakeSeal    = "seal"
)

// Mistake is the program's own: it has not kept the contract, and its run could not go on.
type Mistake struct {
	About string
	Err   error
}

func (m *Mistake) Error() string { return m.Err.Error() }

func (m *Mistake) Unwrap() error { return m.Err }
