-- One row a resource. Its lock makes the decisions on a resource one after the other.
CREATE TABLE IF NOT EXISTS fencepost_sink (
	resource text   PRIMARY KEY,
	issuer   text   NOT NULL,
	highest  bigint NOT NULL, -- token seen
	last_seq bigint NOT NULL, -- entries in the ledger
	value    bigint NOT NULL,
	payload  bytea  NOT NULL
);

-- The accepted idempotency keys.
CREATE TABLE IF NOT EXISTS fencepost_sink_keys (
	resource    text        NOT NULL,
	key         text        NOT NULL,
	token       bigint      NOT NULL,
	seq         bigint      NOT NULL, -- of the ledger's entry
	fingerprint bytea       NOT NULL, -- SHA-256 of the intent
	attempt     uuid        NOT NULL, -- of the call that was accepted
	at          timestamptz NOT NULL, -- by the server's clock
	PRIMARY KEY (resource, key)
);

-- Every raise and acceptance, in order.
CREATE TABLE IF NOT EXISTS fencepost_sink_ledger (
	resource text        NOT NULL,
	seq      bigint      NOT NULL,
	kind     text        NOT NULL, -- raise, accept or seal
	issuer   text        NOT NULL,
	token    bigint      NOT NULL,
	key      text        NOT NULL, -- '' but for accept
	value    bigint      NOT NULL,
	at       timestamptz NOT NULL,
	PRIMARY KEY (resource, seq)
);

CREATE TABLE IF NOT EXISTS fencepost_sink_version (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version integer NOT NULL
);
