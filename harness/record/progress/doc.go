// Package progress says how a run goes on, as events.
//
// A run writes its events to progress.jsonl in its directory, one JSON object a
// line, each as it happens ([Log]); who wants to see a run reads or follows that file
// ([Read], [Follow]), also from another process and while the run goes on. What a
// terminal shows and what --json prints are two renderings of the same events
// ([Text], [JSON]). Nothing here judges: a verdict comes from the history alone.
//
// The writer holds a lock (flock) on the file for as long as it may add to it. So a
// reader can tell a run that is silent for a while from one whose process died:
// the lock of the latter is free and its last event is neither end nor error.
package progress
