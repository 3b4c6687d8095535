package login

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fencepost/core/store/cassandra"
)

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	l := Login{Username: "u", Password: "s3cret", TLS: &TLS{Key: []byte("s3cret")}}
	for _, v := range []any{l, &l} {
		for _, format := range []string{"%v", "%+v", "%s", "%#v"} {
			if s := fmt.Sprintf(format, v); strings.Contains(s, "s3cret") {
				t.Errorf("%s shows the password: %s", format, s)
			}
		}
	}
	if s := l.String(); s != "user u, TLS" {
		t.Errorf("%q", s)
	}
	if s := (Login{TLS: &TLS{Insecure: true}}).String(); s != "no login, TLS without verification" {
		t.Errorf("%q", s)
	}
}

// In a data centre of its own a client agrees by the local quorum.
func TestAgree(t *testing.T) {
	t.Parallel()
	var cfg cassandra.Config
	if err := (Login{LocalDC: "dc1"}).Apply(&cfg); err != nil || cfg.LocalDC != "dc1" || cfg.Serial != "" || cfg.Consistency != "" {
		t.Errorf("%+v, %v: nobody spoke of an agreement", cfg, err)
	}
	if err := (Login{LocalDC: "dc1", LocalSerial: true}).Apply(&cfg); err != nil || cfg.Serial != cassandra.LocalSerial || cfg.Consistency != cassandra.LocalQuorum {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestItTravels(t *testing.T) {
	t.Parallel()
	l := Login{LocalDC: "dc1", Username: "u", Password: "p", TLS: &TLS{ServerName: "x", Names: map[string]string{"10.0.0.1": "a"}, Insecure: true}}
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back Login
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	var cfg cassandra.Config
	if err := back.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.LocalDC != "dc1" || cfg.Username != "u" || cfg.Password != "p" || cfg.TLS == nil || cfg.TLS.ServerName != "x" || !cfg.TLS.InsecureSkipVerify || cfg.TLSNames["10.0.0.1"] != "a" {
		t.Errorf("%s became another configuration", b)
	}
	if err := (Login{TLS: &TLS{CA: []byte("x")}}).Apply(&cfg); err == nil {
		t.Error("an authority without a certificate is taken")
	}
}
