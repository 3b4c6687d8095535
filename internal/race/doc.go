// Package race tells a test whether the race detector is on, which makes what computes
// much about ten times as slow. Tests with nothing to find in it for the detector skip
// there, or do less; make test-unit runs every package whose tests ask this one a second
// time, without the detector and in full.
package race
