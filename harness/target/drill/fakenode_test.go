package drill

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/google/uuid"

	"fencepost/core/store"
	"fencepost/harness/env/link/cqltap"
)

// fakeNode speaks version 4 of the native protocol.
type fakeNode struct {
	self int
	row  store.Locks
}

func fakeIP(i int) string { return fmt.Sprintf("10.0.0.%d", i+1) }

// serve answers connections until the listener is closed, and the connections are.
func (n *fakeNode) serve(l net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			defer c.Close()
			head := make([]byte, 9)
			for {
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				body := make([]byte, binary.BigEndian.Uint32(head[5:]))
				if _, err := io.ReadFull(c, body); err != nil {
					return
				}
				op, answer := n.answer(cqltap.Opcode(head[4]), &wire{body})
				out := binary.BigEndian.AppendUint32([]byte{0x84, 0, head[2], head[3], byte(op)}, uint32(len(answer.b)))
				if _, err := c.Write(append(out, answer.b...)); err != nil {
					return
				}
			}
		})
	}
}

// Types of columns, and kinds of results.
const (
	bigint    = 0x02
	boolean   = 0x04
	uuidType  = 0x0C
	varchar   = 0x0D
	setOfText = 0x22

	kindRows     = 2
	kindKeyspace = 3
	kindPrepared = 4
)

func (n *fakeNode) answer(op cqltap.Opcode, in *wire) (cqltap.Opcode, *wire) {
	out := &wire{}
	switch op {
	case cqltap.OpOptions:
		return cqltap.OpSupported, out.short(0)
	case cqltap.OpStartup, cqltap.OpRegister:
		return cqltap.OpReady, out
	case cqltap.OpQuery:
		switch cql := string(in.take(4)); {
		case strings.Contains(cql, "system.local"):
			return cqltap.OpResult, hosts(n.self)
		case strings.Contains(cql, "system.peers"):
			return cqltap.OpResult, hosts((n.self+1)%3, (n.self+2)%3)
		}
		return cqltap.OpResult, out.int(kindKeyspace).text("ks") // USE
	case cqltap.OpPrepare:
		out.int(kindPrepared).text("id").int(1).int(5).int(1).short(0).text("ks").text("leases")
		out.column("resource", varchar).column("fence", bigint).column("beat", bigint).column("attempt", uuidType).column("holder", varchar)
		return cqltap.OpResult, out.int(4).int(0) // its rows have their columns with them
	}
	return n.execute(in)
}

// execute carries out EXECUTE of the one statement that there is.
func (n *fakeNode) execute(in *wire) (cqltap.Opcode, *wire) {
	in.take(2)      // id
	in.b = in.b[5:] // consistency, flags, number of values
	key := string(in.take(4))
	to := store.Version{TTL: LeaseTTL}
	to.Fence, to.Beat = int64(binary.BigEndian.Uint64(in.take(4))), int64(binary.BigEndian.Uint64(in.take(4)))
	to.Attempt, to.Holder = uuid.UUID(in.take(4)).String(), string(in.take(4))
	res, err := n.row.CAS(context.Background(), key, nil, to, 0)
	out := &wire{}
	if err != nil {
		const serverError = 0
		return cqltap.OpError, out.int(serverError).text(err.Error())
	}
	columns := 1
	if !res.Applied {
		columns = 5
	}
	out.int(kindRows).int(1).int(columns).text("ks").text("leases").column("[applied]", boolean)
	if res.Applied {
		return cqltap.OpResult, out.int(1).bytes([]byte{1})
	}
	id := uuid.MustParse(res.Row.Attempt)
	out.column("attempt", uuidType).column("beat", bigint).column("fence", bigint).column("holder", varchar)
	return cqltap.OpResult, out.int(1).bytes([]byte{0}).bytes(id[:]).bytes(long(res.Row.Beat)).bytes(long(res.Row.Fence)).bytes([]byte(res.Row.Holder))
}

// hosts are nodes as their system tables have them.
func hosts(which ...int) *wire {
	out := &wire{}
	out.int(kindRows).int(1).int(6).text("system").text("peers")
	out.column("host_id", uuidType).column("data_center", varchar).column("rack", varchar).column("release_version", varchar)
	out.column("rpc_address", varchar).column("tokens", setOfText).short(varchar).int(len(which))
	for _, i := range which {
		id := uuid.UUID{15: byte(i + 1)}
		out.bytes(id[:]).bytes([]byte("dc1")).bytes([]byte("rack1")).bytes([]byte("5.0.0")).bytes([]byte(fakeIP(i)))
		out.bytes((&wire{}).int(1).bytes([]byte("0")).b)
	}
	return out
}

// wire writes the protocol's types, and takes them apart.
type wire struct{ b []byte }

func (w *wire) short(n int) *wire {
	w.b = binary.BigEndian.AppendUint16(w.b, uint16(n))
	return w
}

func (w *wire) int(n int) *wire {
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(n))
	return w
}

func (w *wire) text(s string) *wire {
	w.short(len(s)).b = append(w.b, s...)
	return w
}

func (w *wire) bytes(b []byte) *wire {
	w.int(len(b)).b = append(w.b, b...)
	return w
}

func (w *wire) column(name string, kind int) *wire { return w.text(name).short(kind) }

func long(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// take takes what comes next, whose length is in so many bytes.
func (w *wire) take(size int) []byte {
	n := 0
	for _, b := range w.b[:size] {
		n = n<<8 | int(b)
	}
	out := w.b[size : size+n]
	w.b = w.b[size+n:]
	return out
}
