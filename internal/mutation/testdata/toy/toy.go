// Package toy has mutants whose fates are known.
package toy

import "errors"

var errNegative = errors.New("negative")

// Half is tested at its boundary.
func Half(n int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	return n / 2, nil
}

// Larger is tested with two numbers that differ. Its boundary cannot be: the two are equal there.
func Larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// Wait is not tested below 9, and never ends if it does not count.
func Wait(n int) {
	for n < 9 {
		n++
	}
}

// Sign is tested with one number.
func Sign(n int) int {
	switch {
	case n < 0:
		return -2
	}
	return 2
}

// Least is a constant without which the tests do not compile.
const Least = 1
