// Package livepage is a page that shows what the schedulers of a keyspace do, as they do
// it: jobs by state, rates, lateness, who owns which shard, and the runs that have ended
// last. It shows; it changes nothing.
//
// # Where it is from
//
// Each process counts what its own engine does (Recorder.Step fits engine.Watch) in a
// minute's worth of seconds, and tells other processes when they ask (Recorder.Peer, at
// PeerPath beside core/forward, under the same secret). A process whose page is looked at
// reads the shards' headers, asks the processes that they name, and adds up. So the page
// of any process shows all that own something, and says of whom it knows nothing. Jobs by
// state are counted by the owners of their shards (engine.Engine.Depths): of a shard that
// nobody owns, or whose owner does not answer, the page says "or more", and if no owner has
// counted nothing at all. Nothing of this is done while nobody looks.
//
// What was counted is forgotten when a process ends: what is kept is in the metrics and in
// the history of runs.
//
// # Who may look
//
// With a token, a browser asks for a name, which may be anything, and a password, which is
// the token (HTTP basic authentication, as an EventSource sends no other header); or it is
// shown as the API wants it. The page needs nothing from elsewhere.
package livepage
