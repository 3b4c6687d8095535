//go:build race

package engine_test

// raceDetector makes a simulation several times as slow.
const raceDetector = true
