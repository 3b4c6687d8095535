package lab

import (
	"net/http"
	"strings"
	"testing"

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
