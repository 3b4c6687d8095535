// Package httpsink is the receiving end of fenced side effects for programs that
// are not fencepost's own: the rules of core/sink as JSON over HTTP, which every
// language speaks.
//
// It runs in the harness's process, and is real where that matters: requests come
// through sockets, each by its worker's own link, so that a fault on the sink holds,
// delays, repeats or loses them; a decision is one critical section of a mutex, which
// is what makes it linearizable; and its entry is handed to the run's record before
// the answer leaves. Nothing has to outlive a crash, as no fault kills the harness:
// a run whose harness died is INVALID anyway.
//
// The paths, of a resource NAME (escaped as a path element):
//
//	GET  /NAME          its value
//	POST /NAME/raise    {"issuer": "LOCK", "token": 7}
//	POST /NAME/effect   {"issuer": "LOCK", "token": 7, "key": "K", "value": 3}
//
// An answer has result (applied, duplicate, stale, conflict), seen, the highest token
// that the sink knows, and seq, the number of its decision; of GET value, seen, seq. Its
// status is 200, of stale and conflict 409, of a request that can never be carried out 400
// with the reason in error: nothing was done then.
//
// An effect with "fenced": false is taken whatever its token, as by a service that
// knows nothing of fencing: for those who want to see their own run turn red.
package httpsink
