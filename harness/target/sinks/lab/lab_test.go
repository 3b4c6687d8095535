package lab

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fencepost/core/sink"
	boltsink "fencepost/core/sink/bolt"
	httpsink "fencepost/core/sink/http"
)

// A request that is refused is told which header it lacks, or has wrong.
func TestClaims(t *testing.T) {
	t.Parallel()
	sound := map[string]string{httpsink.HeaderResource: "r", httpsink.HeaderIssuer: "l", httpsink.HeaderToken: "7", httpsink.HeaderKey: "k", httpsink.HeaderValue: "-1"}
	for name := range sound {
		for _, value := range []string{"", "many", sound[name]} {
			h := http.Header{}
			for n, v := range sound {
				h.Set(n, v)
			}
			h.Set(name, value)
			number := name == httpsink.HeaderToken || name == httpsink.HeaderValue
			_, _, _, e, err := claims(h)
			switch bad := value == "" || number && value == "many"; {
			case bad && (err == nil || !strings.Contains(err.Error(), "the header "+name)):
				t.Errorf("%s is %q: %v", name, value, err)
			case !bad && (err != nil || e.Value != -1):
				t.Errorf("%s is %q: %v, %+v", name, value, err, e)
			}
		}
	}
	h := http.Header{}
	for n, v := range sound {
		h.Set(n, v)
	}
	h.Set(httpsink.HeaderToken, "0")
	if _, _, _, _, err := claims(h); err == nil || !strings.Contains(err.Error(), httpsink.HeaderToken) {
		t.Errorf("token 0: %v", err)
	}
}

// A service that forgets all drops what is younger than it was told, and the reference service does not.
func TestForgetsAll(t *testing.T) {
	t.Parallel()
	s, err := boltsink.Open(filepath.Join(t.TempDir(), "sink.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: "k", Value: 1}); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		by   sink.Sink
		want int
	}{{s, 0}, {forgetful{s}, 1}} {
		if n, err := c.by.Forget(t.Context(), "r", old); n != c.want || err != nil {
			t.Errorf("%T forgot %d keys, %v; want %d", c.by, n, err, c.want)
		}
	}
}
