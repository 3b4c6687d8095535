// Package login is what a client shows to a Cassandra cluster that is not the
// harness's own: who it is, and by which certificates the two trust each other.
//
// A [Login] holds secrets and travels from the tool to its workers. It goes over the
// control channel: a socket pair that these two processes alone hold, and nothing is
// left of what has been read. An environment can be read in /proc for as long as the
// process lives and is handed on to whatever that starts; a file would have to be
// removed by the process that survives.
package login

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"fencepost/core/store/cassandra"
)

// Login is how clients introduce themselves, and which nodes they may talk to. The
// zero value is a cluster without login and TLS.
type Login struct {
	// LocalDC is the data centre whose nodes are coordinators; "" for all.
	LocalDC string `json:"local_dc,omitempty"`
	// LocalSerial: clients agree within LocalDC alone, by LOCAL_SERIAL and LOCAL_QUORUM.
	LocalSerial bool   `json:"local_serial,omitempty"`
	Username    string `json:"username,omitempty"`
	Password    string `json:"password,omitempty"`
	TLS         *TLS   `json:"tls,omitempty"`
}

// TLS is the material of TLS connections.
type TLS struct {
	// CA, Cert and Key are PEM. Without CA the system's certificates are trusted.
	CA   []byte `json:"ca,omitempty"`
	Cert []byte `json:"cert,omitempty"`
	Key  []byte `json:"key,omitempty"`
	// ServerName is the name in every node's certificate; Names are those of single
	// nodes, by IP. A node without any is verified by its IP.
	ServerName string            `json:"server_name,omitempty"`
	Names      map[string]string `json:"names,omitempty"`
	// Insecure: nothing is verified.
	Insecure bool `json:"insecure,omitempty"`
}

// String hides what is secret.
func (l Login) String() string {
	s := "no login"
	if l.Username != "" {
		s = "user " + l.Username
	}
	switch {
	case l.TLS == nil:
		s += ", no TLS"
	case l.TLS.Insecure:
		s += ", TLS without verification"
	default:
		s += ", TLS"
	}
	return s
}

// GoString is String: %#v shows no secret either.
func (l Login) GoString() string { return "login.Login{" + l.String() + "}" }

// Config is the configuration of TLS connections, nil without TLS.
func (l Login) Config() (*tls.Config, error) {
	t := l.TLS
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.Insecure, MinVersion: tls.VersionTLS12}
	if len(t.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, errors.New("there is no certificate in the CA's file: it must be PEM (-----BEGIN CERTIFICATE-----)")
		}
	}
	if len(t.Cert)+len(t.Key) > 0 {
		pair, err := tls.X509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Apply adds the login to the configuration of a session.
func (l Login) Apply(cfg *cassandra.Config) error {
	t, err := l.Config()
	if err != nil {
		return err
	}
	l.Agree(cfg)
	cfg.Username, cfg.Password, cfg.TLS = l.Username, l.Password, t
	if l.TLS != nil {
		cfg.TLSNames = l.TLS.Names
	}
	return nil
}

// Agree is Apply's part that says where and by which quorum clients agree.
func (l Login) Agree(cfg *cassandra.Config) {
	cfg.LocalDC = l.LocalDC
	if l.LocalSerial {
		cfg.Serial, cfg.Consistency = cassandra.LocalSerial, cassandra.LocalQuorum
	}
}
