// Command httpsinkd is the reference service of the fenced HTTP sink; see package httpsink
// for the contract.
package main

import (
	"os"

	"fencepost/core/sink/http/httpsinkd"
)

func main() { os.Exit(httpsinkd.Main(os.Args[1:], os.Stderr, nil)) }
