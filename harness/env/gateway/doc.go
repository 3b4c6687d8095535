// Package gateway is a proxy between the workers' links and a sink that is reached by HTTP, as
// load balancers, meshes and caches are: it can upload slowly, break uploads off, send them twice,
// and answer by itself. Until it is told to, it passes on what comes.
//
// What it did is not its own word: taps read what is carried to it, on the workers' links, and
// what comes out of it, on a link of its own (Seen). An answer of its own that somebody takes for
// the sink's is found by the checker, as the link carried no such decision.
package gateway
