//go:build !linux

package boltsink

func monotonic() int64 { return 0 }
