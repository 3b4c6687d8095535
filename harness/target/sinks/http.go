package sinks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	httpsink "fencepost/core/sink/http"
	"fencepost/harness/env/link/httptap"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/record/history"
	"fencepost/harness/target/sinks/lab"
)

// Services of the HTTP sink: the reference one, and the one with a back door.
const (
	httpBinary = "httpsinkd"
	labBinary  = "httpsinkd-lab"
)

// httpGreeting is a request that every HTTP server answers.
var httpGreeting = []byte("OPTIONS * HTTP/1.1\r\nHost: sink\r\n\r\n")

func startHTTP(ctx context.Context, o Options) (*osproc.Service, error) {
	name := httpBinary
	if o.Unfenced || o.Broken != "" {
		name = labBinary
	}
	binary := filepath.Join(o.BinDir, name)
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: make build puts it beside the tool", err)
	}
	addr, err := osproc.FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, free, err := makeStorage(storageMiB)
	if err != nil {
		return nil, err
	}
	s := &osproc.Service{
		Name: "the sink's service " + name, Address: addr, Dir: dir, Closed: free, Log: o.Log, Ended: o.Ended,
		Command: func() *exec.Cmd {
			cmd := exec.Command(binary, "--listen="+addr, "--file="+filepath.Join(dir, "sink.db"))
			cmd.Env = append(os.Environ(), lab.BrokenEnv+"="+o.Broken)
			return cmd
		},
		Ready: func(ctx context.Context) error { return healthy(ctx, addr) },
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// storageMiB bounds the service's file where it is in memory. A hundred thousand effects take about
// 400 MiB.
const storageMiB = 4096

// storageStepMiB is by how much the file grows at once, at least: with less room it cannot.
const storageStepMiB = 32

// makeStorage makes a directory for a service's file, and what frees it before it is removed. In the
// sandbox it is in memory, where a file outlives its process as on a disk and syncing it costs
// nothing: this harness kills processes, not machines (docs/decisions/0006). Outside, where nothing
// can be mounted, it is on the disk. A sink that had no room left decides nothing, so free fails then.
func makeStorage(mib int64) (dir string, free func() error, err error) {
	dir, err = os.MkdirTemp("", "fencepost-sink-")
	if err != nil || !sandbox.Inside() {
		return dir, nil, err
	}
	if err := sandbox.MountMemory(dir, mib<<20); err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	return dir, sync.OnceValue(func() error {
		var fs unix.Statfs_t
		err := unix.Statfs(dir, &fs)
		if err == nil && fs.Bavail*uint64(fs.Bsize) < storageStepMiB<<20 {
			err = fmt.Errorf("the sink's file filled the %d MiB of memory that it may take: make the run shorter, or use --sink=postgres, which is on the disk", mib)
		}
		return errors.Join(err, sandbox.Unmount(dir))
	}), nil
}

// healthy asks a service over a connection of its own.
func healthy(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+httpsink.PathHealth, nil)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// remote is the HTTP sink.
type remote struct {
	*httpsink.Sink
	*lab.Door
}

func openHTTP(_ context.Context, at Place) (Client, error) {
	url := "http://" + at.Addr
	s, err := httpsink.New(url, httpsink.Options{RequestTimeout: at.Timeout})
	if err != nil {
		return nil, err
	}
	return remote{s, lab.NewDoor(url)}, nil
}

// Close implements Client.
func (r remote) Close() {
	r.Sink.Close()
	r.Door.Close()
}

// answerHTTP is Kind.Answer of the HTTP sink.
func answerHTTP(worker string, x httptap.Exchange) (history.Event, bool) {
	e := history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteAnswer, TS: x.Answered, Details: &history.Details{Asked: &history.Asked{Worker: worker, Sent: x.Sent}}}
	h := x.Request.Header
	e.Key, e.Issuer, e.EffectKey = h.Get(httpsink.HeaderResource), h.Get(httpsink.HeaderIssuer), h.Get(httpsink.HeaderKey)
	e.Token = number(h.Get(httpsink.HeaderToken))
	switch x.Request.Method + " " + x.Request.URL.Path {
	case "POST " + httpsink.PathRaise:
		e.Asked().Op, e.EffectKey = history.OpRaise, ""
	case "POST " + httpsink.PathEffects, "POST " + lab.PathEffects, "POST " + lab.PathRuns:
		value := number(h.Get(httpsink.HeaderValue))
		e.Asked().Op, e.Value = history.OpEffect, &value
	case "GET " + httpsink.PathState:
		e.Asked().Op, e.Issuer, e.EffectKey, e.Token = history.OpGet, "", "", 0
		return e, read(&e, x)
	case "POST " + lab.PathWrite:
		return e, lab.Wrote(&e, x.Body, x.Answer)
	default:
		return e, false
	}
	e.Issuer = cmp.Or(e.Issuer, e.Key)
	return e, decided(&e, x)
}

// decided adds a decision, or why there is none.
func decided(e *history.Event, x httptap.Exchange) bool {
	if x.Response == nil {
		e.Error = "no answer"
		return true
	}
	h := x.Response.Header
	switch result := h.Get(httpsink.HeaderResult); result {
	case "applied", "duplicate", "stale", "conflict":
		if err := httpsink.CheckRepeated(h, x.Request.Header); err != nil {
			e.Error = err.Error()
			break
		}
		e.Result, e.Seen, e.Seq = result, number(h.Get(httpsink.HeaderSeen)), number(h.Get(httpsink.HeaderSeq))
	default:
		e.Error = fmt.Sprintf("%s, %s %q", x.Response.Status, httpsink.HeaderResult, result)
	}
	return true
}

// read adds what a read showed.
func read(e *history.Event, x httptap.Exchange) bool {
	var st struct{ Value, Seen, Seq int64 }
	switch {
	case x.Response == nil:
		e.Error = "no answer"
	case httpsink.CheckRepeated(x.Response.Header, x.Request.Header) != nil:
		e.Error = httpsink.CheckRepeated(x.Response.Header, x.Request.Header).Error()
	case x.Response.StatusCode != http.StatusOK || json.Unmarshal(x.Answer, &st) != nil:
		e.Error = x.Response.Status
	default:
		e.Value, e.Seen, e.Seq = &st.Value, st.Seen, st.Seq
	}
	return true
}

// number is 0 for what is none: the service has refused that.
func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
