package httpsink

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"fencepost/core/sink"
)

// Headers of the contract; see the package comment.
const (
	HeaderResource = "Fencing-Resource"
	HeaderToken    = "Fencing-Token"
	HeaderIssuer   = "Fencing-Issuer"
	HeaderKey      = "Idempotency-Key"
	HeaderIntent   = "Fencing-Intent"
	HeaderValue    = "Fencing-Value"
	HeaderResult   = "Fencing-Result"
	HeaderSeen     = "Fencing-Seen"
	HeaderFirst    = "Fencing-First"
	HeaderSeq      = "Fencing-Seq"
)

// repeated are what an answer repeats of its request, so that the answer to another one is not
// taken for it.
var repeated = []string{HeaderResource, HeaderToken, HeaderKey}

// Repeat puts into an answer what it has to repeat of its request. A header that comes more than
// once is left out.
func Repeat(answer, request http.Header) {
	for _, name := range repeated {
		if v := request.Values(name); len(v) == 1 {
			answer.Set(name, v[0])
		}
	}
}

// CheckRepeated says in what an answer is not one to the request.
func CheckRepeated(answer, request http.Header) error {
	for _, name := range repeated {
		asked := request.Values(name)
		if got := answer.Get(name); len(asked) < 2 && got != request.Get(name) {
			return fmt.Errorf("the answer repeats %s %q, asked was %q: something before the sink answers, or a service that does not repeat "+
				"what it decides about", name, got, request.Get(name))
		}
	}
	return nil
}

// Paths of the contract.
const (
	PathRaise   = "/raise"
	PathEffects = "/effects"
	PathState   = "/state"
	PathLedger  = "/ledger"
	PathForget  = "/forget"
	PathRetire  = "/retire"
	// PathHealth answers 200 while the sink works.
	PathHealth = "/healthz"
)

// Results that are no sink.Result.
const (
	resultIssuer  = "issuer"
	resultInvalid = "invalid"
)

// Limits of a request.
const (
	MaxPayload = 1 << 20 // bytes of an effect's body
	maxName    = 512     // characters of a resource, an issuer or a key
)

// statuses are those of the decisions.
var statuses = map[string]int{
	sink.Applied.String(): http.StatusOK, sink.Duplicate.String(): http.StatusOK,
	sink.Stale.String(): http.StatusPreconditionFailed, sink.Conflict.String(): http.StatusUnprocessableEntity,
	resultIssuer: http.StatusConflict, resultInvalid: http.StatusBadRequest,
}

// ledger is one page of entries; More says that others follow.
type ledger struct {
	Entries []sink.Entry `json:"entries"`
	More    bool         `json:"more"`
}

// forget is the body of a request to drop keys, forgotten its answer.
type (
	forget struct {
		Before time.Time `json:"before"`
	}
	forgotten struct {
		Dropped int `json:"dropped"`
	}
)

// problem is why a request was not carried out.
type problem struct {
	Error string `json:"error"`
}

// intentOf is the fingerprint of an effect's intent as the header has it.
func intentOf(intent []byte) string {
	sum := sha256.Sum256(intent)
	return hex.EncodeToString(sum[:])
}

// checkName refuses what a header would not carry as it is.
func checkName(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is missing", what)
	}
	if len(s) > maxName {
		return fmt.Errorf("%s has %d characters, more than %d", what, len(s), maxName)
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("%s %q: only printable ASCII characters", what, s)
		}
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' {
		return fmt.Errorf("%s %q: it begins or ends with a blank", what, s)
	}
	return nil
}

func checkIntent(s string) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size {
		return fmt.Errorf("%s %q: not the 64 hex digits of a SHA-256", HeaderIntent, s)
	}
	return nil
}

func parseToken(s string) (int64, error) {
	if s == "" {
		return 0, errors.New(HeaderToken + " is missing: a request without a fencing token is not taken")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > sink.MaxToken {
		return 0, fmt.Errorf("%s %q: not a whole number above 0, up to %d", HeaderToken, s, int64(sink.MaxToken))
	}
	return n, nil
}

// one is the only value of a header; "" if it is absent. Two would be read as one by some
// and as the other by the rest.
func one(h http.Header, name string) (string, error) {
	if v := h.Values(name); len(v) > 1 {
		return "", fmt.Errorf("%s comes %d times", name, len(v))
	}
	return h.Get(name), nil
}
