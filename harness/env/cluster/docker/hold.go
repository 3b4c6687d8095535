package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fencepost/harness/env/sandbox"
)

const (
	// holdEnv tells this program that it is a holder, and which redirects to make.
	holdEnv = "FENCEPOST_DOCKER_HOLD"
	// holding is what it prints when they are made.
	holding = "fencepost: redirects are made"
	// holdPath is where the program is in the holder.
	holdPath = "/fencepost-hold"
)

// redirect turns connections to port 7000 of To to Proxy.
type redirect struct {
	To        string `json:"to"`
	Proxy     string `json:"proxy"`
	ProxyPort int    `json:"port"`
}

// Init must be called first in main: in a node's holder it never returns.
func Init() {
	if text := os.Getenv(holdEnv); text != "" && os.Args[0] == holdPath {
		os.Exit(hold(text))
	}
}

// hold makes the redirects and keeps the network namespace until it is told to end.
func hold(text string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	var redirects []redirect
	if err := json.Unmarshal([]byte(text), &redirects); err != nil {
		fmt.Println(err)
		return 1
	}
	for i, r := range redirects {
		if err := sandbox.RedirectHere(i == 0, r.To, internodePort, r.Proxy, r.ProxyPort); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println(holding)
	<-ended
	return 0
}
