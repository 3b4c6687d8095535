package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"fencepost/harness/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

func TestSmoke(t *testing.T) {
	if !sandbox.Inside() {
		code, err := sandbox.Run(context.Background(), []string{"-test.run=TestSmoke", "-test.v", "-test.timeout=300s"})
		if err != nil || code != 0 {
			t.Fatal(code, err)
		}
		return
	}
	n, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	b := time.Now()
	l, err := StartLocal(context.Background(), n, LocalConfig{Progress: func(s string) { fmt.Println(time.Since(b), s) }})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Info(), l.config.LogDir)
	if d := os.Getenv("SMOKE_SLEEP"); d != "" {
		dd, _ := time.ParseDuration(d)
		time.Sleep(dd)
	}
	fmt.Println(l.Close(context.Background()))
}
