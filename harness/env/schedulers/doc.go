// Package schedulers runs schedulerd processes beside a kept cluster, to play with.
//
// The cluster's network is a sandbox's, which nothing outside reaches. A listener stays in
// the network where it was opened, in whichever process accepts from it: so the listeners are opened
// outside, handed in, and what connects to them is passed on to the processes, each of
// which has a loopback address of its own inside.
//
// A process that ends by itself is started again, so that it can be killed to see others
// take over. The end is theirs: SIGTERM, upon which they hand their shards over.
package schedulers
