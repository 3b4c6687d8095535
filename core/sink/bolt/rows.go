package boltsink

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"fencepost/core/sink"
)

// Parts of a resource's bucket.
var (
	headerName = []byte("header")
	keysName   = []byte("keys")
	ledgerName = []byte("ledger")
)

// header is a resource's state.
type header struct {
	Issuer  string `json:"issuer"`
	Highest int64  `json:"highest"`
	Seq     int64  `json:"seq"`
	Value   int64  `json:"value"`
	Payload []byte `json:"payload,omitempty"`
	Sealed  bool   `json:"sealed,omitempty"` // see sink.Header
}

// keyRow is an accepted key.
type keyRow struct {
	Token  int64     `json:"token"`
	Seq    int64     `json:"seq"`
	Intent string    `json:"intent"`
	At     time.Time `json:"at"`
}

// entryRow is an entry of the ledger; its number is its key.
type entryRow struct {
	Kind   string `json:"kind"`
	Issuer string `json:"issuer"`
	Token  int64  `json:"token"`
	Key    string `json:"key,omitempty"`
	Value  int64  `json:"value,omitempty"`
	At     int64  `json:"at,omitempty"`
	// Wall is when by the wall clock, in ns since 1970; 0 of entries of older versions.
	Wall int64 `json:"wall,omitempty"`
}

// Rows are a resource's rows in one transaction.
type Rows struct {
	header
	name    string
	tx      *bolt.Tx
	bucket  *bolt.Bucket // nil: there is no such resource yet
	changed bool
}

func openRows(tx *bolt.Tx, name string) (*Rows, error) {
	r := &Rows{name: name, tx: tx, bucket: tx.Bucket([]byte(name))}
	if r.bucket == nil {
		return r, nil
	}
	return r, decode(name+": its header", r.bucket.Get(headerName), &r.header)
}

func (r *Rows) head() sink.Header {
	return sink.Header{Issuer: r.Issuer, Highest: r.Highest, Seq: r.Seq, Sealed: r.Sealed}
}

// decide decides a call on the rows and writes the decision down.
func (r *Rows) decide(c sink.Call) (sink.Answer, error) {
	var known *sink.Accepted
	if c.Effect != nil {
		k, err := r.key(c.Effect.Key)
		if err != nil {
			return sink.Answer{}, err
		}
		if k != nil {
			known = &sink.Accepted{Token: k.Token, Seq: k.Seq, Fingerprint: (&sink.Effect{Intent: k.Intent}).Fingerprint()}
		}
	}
	h := r.head()
	if r.bucket == nil {
		floor, err := openRows(r.tx, sink.FloorOf(c.Issuer))
		if err != nil {
			return sink.Answer{}, err
		}
		h = sink.Fresh(floor.Highest)
	}
	d := sink.Decide(h, known, c)
	if d.Err != nil || d.Kind == "" {
		return d.Answer, d.Err
	}
	if err := r.Bind(c.Issuer); err != nil {
		return sink.Answer{}, err
	}
	if d.Kind == sink.KindAccept {
		return d.Answer, r.Accept(c.Token, *c.Effect)
	}
	return d.Answer, r.raise(d)
}

// Bind binds a new resource to its issuer, and refuses another one.
func (r *Rows) Bind(issuer string) (err error) {
	if r.bucket != nil {
		if r.Issuer != issuer {
			return &sink.IssuerError{Resource: r.name, Bound: r.Issuer, Used: issuer}
		}
		return nil
	}
	if r.bucket, err = r.tx.CreateBucket([]byte(r.name)); err != nil {
		return err
	}
	for _, part := range [][]byte{keysName, ledgerName} {
		if _, err := r.bucket.CreateBucket(part); err != nil {
			return err
		}
	}
	r.Issuer, r.changed = issuer, true
	return nil
}

// save writes the header if something was changed.
func (r *Rows) save() error {
	if !r.changed {
		return nil
	}
	return put(r.bucket, headerName, r.header)
}

func (r *Rows) log(e entryRow) error {
	r.Seq++
	r.changed = true
	e.Issuer, e.At, e.Wall = r.Issuer, monotonic(), time.Now().UnixNano()
	return put(r.bucket.Bucket(ledgerName), ledgerKey(r.Seq), e)
}

// raise raises the highest token, or seals it.
func (r *Rows) raise(d sink.Decision) error {
	r.Highest, r.Sealed = d.Header.Highest, d.Header.Sealed
	return r.log(entryRow{Kind: d.Kind, Token: r.Highest})
}

// Accept writes an effect down, whatever its token and key: the caller has decided.
func (r *Rows) Accept(token int64, e sink.Effect) error {
	if token >= r.Highest {
		r.Highest, r.Sealed = token, false
	}
	r.Value, r.Payload = e.Value, e.Payload
	if err := r.log(entryRow{Kind: sink.KindAccept, Token: token, Key: e.Key, Value: e.Value}); err != nil {
		return err
	}
	return put(r.bucket.Bucket(keysName), []byte(e.Key), keyRow{Token: token, Seq: r.Seq, Intent: e.Intent, At: time.Now()})
}

// key is the row of an accepted key, nil if there is none.
func (r *Rows) key(name string) (*keyRow, error) {
	if r.bucket == nil {
		return nil, nil
	}
	b := r.bucket.Bucket(keysName).Get([]byte(name))
	if b == nil {
		return nil, nil
	}
	k := &keyRow{}
	return k, decode(r.name+": its key "+name, b, k)
}

// Applied is the token with which a key was accepted, 0 if it was not.
func (r *Rows) Applied(key string) (int64, error) {
	k, err := r.key(key)
	if k == nil {
		return 0, err
	}
	return k.Token, err
}

// ledger is up to n entries in order, from the one that follows number after.
func (r *Rows) ledger(after int64, n int) (out []sink.Entry, err error) {
	c := r.bucket.Bucket(ledgerName).Cursor()
	for k, v := c.Seek(ledgerKey(after + 1)); k != nil && len(out) < n; k, v = c.Next() {
		var e entryRow
		if err := decode(r.name+": an entry of its ledger", v, &e); err != nil {
			return nil, err
		}
		out = append(out, sink.Entry{Seq: int64(binary.BigEndian.Uint64(k)), Kind: e.Kind, Issuer: e.Issuer, Token: e.Token, Key: e.Key, Value: e.Value, At: e.At})
	}
	return out, nil
}

// ledgerKey is the key of an entry: in the order of their numbers.
func ledgerKey(seq int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

// forget drops the keys that were accepted before the instant, and seals: a copy of an
// accepted effect that is still on its way is then stale. Then it trims the ledger.
func (r *Rows) forget(before time.Time) (int, error) {
	if r.bucket == nil {
		return 0, nil
	}
	keys := r.bucket.Bucket(keysName)
	var old [][]byte
	err := keys.ForEach(func(name, v []byte) error {
		var k keyRow
		if err := decode(r.name+": its key "+string(name), v, &k); err != nil {
			return err
		}
		if k.At.Before(before) {
			old = append(old, append([]byte(nil), name...))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, name := range old {
		if err := keys.Delete(name); err != nil {
			return 0, err
		}
	}
	if d := sink.Seal(r.head()); len(old) > 0 && d.Kind != "" {
		if err := r.raise(d); err != nil {
			return 0, err
		}
	}
	return len(old), r.trim(before)
}

// trim drops the entries of the ledger that were made before the instant, up to the last one.
func (r *Rows) trim(before time.Time) error {
	c := r.bucket.Bucket(ledgerName).Cursor()
	for k, v := c.First(); k != nil && binary.BigEndian.Uint64(k) < uint64(r.Seq); k, v = c.First() {
		var e entryRow
		if err := decode(r.name+": an entry of its ledger", v, &e); err != nil {
			return err
		}
		if !time.Unix(0, e.Wall).Before(before) {
			return nil
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

func put(b *bolt.Bucket, key []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, text)
}

func decode(what string, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s is malformed, it was written by something else than this program: %w", what, err)
	}
	return nil
}
