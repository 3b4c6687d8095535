// Package api is the scheduler's HTTP API: JSON over HTTP/1.1, described by openapi.yaml,
// which it serves at /openapi.yaml. A test compares that with the code in both directions.
//
// Any process answers any request. Reads go to the store (core/service/query); an enqueue goes
// the best way there is (engine.Submit), a command to the process that owns the shard.
//
// # What an answer means
//
// 201 and 202 to an enqueue come when it is durable: its tick is settled, or its row is in
// the inbox (202: whether it is a duplicate is decided when it is copied). A problem
// with code outcome-unknown (504) means that it may have been done: asking again is safe
// for whatever names what it does, an enqueue with an idempotency key, a trigger with
// one, every command. A pause of a queue that not all shards' owners heard of is a problem
// with code partly (503), which names the others; asking again is safe. Every other
// problem means that nothing was done.
//
// # Idempotency
//
// The header Idempotency-Key, or idempotency_key in the body, is the engine's own key: the
// job's id is made of it and the queue, so that there is one job for it until its id
// is forgotten, the dedupe window after its end. A digest of the request is kept with the
// job's state: with the same key another request is refused (422, key-reused). It is what
// the client said that is compared, not what this process adds, so that other settings do
// not make another request of it. Of an enqueue by the inbox (202) it is compared with what is
// known then; if its key was used for another one at the same time, that one stays. The
// key of a schedule is its name: with it the schedule is changed.
//
// # Limits
//
// Bodies are bounded before they are read, unknown fields, names that occur twice and
// unknown parameters are refused with their names, and so is a body that is not
// application/json: then no page in a browser can make it send one unasked. With a token,
// requests must show it, but those of probes, of metrics and of the description. The
// rate limit is this process's, for all clients together.
package api
