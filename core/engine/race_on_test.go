//go:build race

package engine

// raceDetector makes a simulation several times as slow.
const raceDetector = true
