// Package evidence carries out many runs and keeps what they showed. A single
// green run proves little; what a release rests on is the same scenarios at
// several contentions under many seeds.
//
// A [Job] is a run to do, a [Result] what it showed, condensed to a kilobyte
// and without the history. The [Store] is a file with one JSON line a run,
// and the only state: whatever is stored is done, so a [Loop] that was stopped, by
// Ctrl-C or by a power cut, is resumed by starting it again. Two rules keep the
// evidence honest:
//
//   - A result that is not PASS is never replaced and never run again by itself.
//     Asked to, the loop runs it again and stores the new result beside the old.
//   - A line that cannot be read stops everything and is named. To skip it would
//     hide a result, and maybe a red one.
//
// A store's file is replaced as a whole under a lock, so that processes may share it,
// and lines that are there stay byte for byte. What follows from the rest of a line is not
// in it, and the versions and the machine that runs share are a line of their own.
//
// The package knows neither clusters nor scenarios: the Run function of the loop
// does the run, so other matrices (variants, systems) use the same loop and store.
package evidence
