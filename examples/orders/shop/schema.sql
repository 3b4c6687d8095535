-- The shop's tables. They are in the same database as the sink's, which is what lets one
-- transaction change both.

CREATE TABLE IF NOT EXISTS stock (
  item     text   PRIMARY KEY,
  quantity bigint NOT NULL,
  version  bigint NOT NULL -- rises by one with every change
);

-- What happened to the stock, a row for each version.
CREATE TABLE IF NOT EXISTS stock_moves (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  item     text   NOT NULL REFERENCES stock,
  version  bigint NOT NULL,
  delta    bigint NOT NULL,
  quantity bigint NOT NULL, -- what was there after it
  order_id text   NOT NULL  -- '' for a delivery
);

CREATE TABLE IF NOT EXISTS orders (
  id         text   PRIMARY KEY,
  item       text   NOT NULL,
  quantity   bigint NOT NULL CHECK (quantity > 0),
  cents      bigint NOT NULL CHECK (cents > 0),
  state      text   NOT NULL CHECK (state IN ('reserved', 'rejected', 'paid', 'cancelled', 'shipped')),
  hold_until timestamptz -- until when the items are kept for it
);

-- What was charged and sent away. Like a provider's books they would take a payment a
-- second time: that it comes once only is what the effects' keys and fences are for.
CREATE TABLE IF NOT EXISTS payments (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id text   NOT NULL REFERENCES orders,
  cents    bigint NOT NULL,
  token    bigint NOT NULL, -- of the run that paid
  paid_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS shipments (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id   text NOT NULL REFERENCES orders,
  shipped_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
