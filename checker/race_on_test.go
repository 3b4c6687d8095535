//go:build race

package checker

// raceDetector: its shadow memory exceeds any sensible limit.
const raceDetector = true
