// Command httpsinkd-lab is the reference service of the HTTP sink with a back door, for runs
// of known-broken variants; see package lab.
package main

import (
	"os"

	"fencepost/core/sink/http/httpsinkd"
	"fencepost/harness/target/sinks/lab"
)

func main() { os.Exit(httpsinkd.Main(os.Args[1:], os.Stderr, lab.Handler)) }
