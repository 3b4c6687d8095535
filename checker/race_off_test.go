//go:build !race

package checker

const raceDetector = false
