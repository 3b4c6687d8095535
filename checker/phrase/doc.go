// Package phrase puts numbers, durations and lists into sentences: "1 gap was", "3.0 ms", "twice".
package phrase
