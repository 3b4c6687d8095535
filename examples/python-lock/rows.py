"""The table of the locks, and the record of what is done to it."""
import collections
import time

from cql import QUORUM, SERIAL, NoAnswer, Refused, Session
from fencepost import now, var, words

LEASES = var("KEYSPACE") + ".leases"
TABLE = f"""CREATE TABLE IF NOT EXISTS {LEASES} (name text PRIMARY KEY,
  fence bigint, beat bigint, attempt text, holder text, ttl_ms bigint)"""
READ = f"SELECT fence, beat, attempt, holder, ttl_ms FROM {LEASES} WHERE name = ?"
INSERT = f"INSERT INTO {LEASES} (fence, beat, attempt, holder, ttl_ms, name) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS"
UPDATE = f"""UPDATE {LEASES} SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE name = ?
  IF fence = ? AND beat = ? AND attempt = ? AND holder = ? AND ttl_ms = ?"""
# What the history says of them, for P13.
STATEMENTS = [{"cql": cql, "consistency": "QUORUM", "serial_consistency": "SERIAL"} for cql in (INSERT, UPDATE)]
STATEMENTS += [{"cql": READ, "consistency": level} for level in ("QUORUM", "SERIAL")]

Row = collections.namedtuple("Row", "fence beat attempt holder ttl_ms")  # fence: the token


def clock():
    """Seconds on a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def version(row):
    """A row as the history writes it."""
    v = (row or Row(0, 0, "", "", 0))._asdict()
    return v if row else {"absent": True, **v}


def row_of(rows):
    r = rows[0] if rows else {}
    return Row(*(r[f] for f in Row._fields)) if r.get("fence") is not None else None


class Rows:
    """The table, and the record of what is done to it."""

    def __init__(self, history, proc, first=0):
        self.history, self.proc = history, proc
        self.db = Session(words("NODES"), first)

    def look(self, name):
        """A plain look: what it shows may be old, and the compare-and-set decides."""
        return row_of(self.db.query(READ, (name,), consistency=QUORUM))

    def read(self, name):
        """The linearizable look, recorded; raises NoAnswer."""
        op = self.history.invoke(self.proc, "read", name)
        try:
            row = row_of(self.db.query(READ, (name,), consistency=SERIAL))
        except NoAnswer as e:
            self.history.end(op, "unknown", error=str(e))
            raise
        self.history.end(op, "ok", row=version(row))
        return row

    def cas(self, kind, name, old, new, copies=3, takeover=None, before_send=lambda: None):
        """One compare-and-set. Identical copies of it are sent until one is answered: whichever
        of them takes effect, the others cannot any more. Returns ok, fail or unknown, and the
        time of the first send, from which alone a holder may count its lease."""
        op = self.history.invoke(self.proc, kind, name, **{"from": version(old), "to": version(new)}, takeover=takeover)
        first, sends, error = clock(), [], None
        args = (*new, name, *(old or ()))
        for n in range(copies):
            sends.append(now())
            if n == 0:
                before_send()
            try:
                r = self.db.query(INSERT if old is None else UPDATE, args, consistency=QUORUM, serial=SERIAL)[0]
            except NoAnswer as e:
                error = str(e)
                continue
            row = row_of([r])
            if r["[applied]"] or row == new:  # row == new: an earlier copy took effect
                self.history.end(op, "ok", sends=sends)
                return "ok", first
            if n == 0:
                self.history.end(op, "fail", sends=sends, row=version(row))
                return "fail", first
            error = "rejected after an unanswered copy"
            break
        try:  # the row tells if it took effect; that it does not show it proves nothing
            if self.read(name) == new:
                self.history.end(op, "ok", sends=sends)
                return "ok", first
        except NoAnswer:
            pass
        self.history.end(op, "unknown", sends=sends, error=error)
        return "unknown", first


def make_table():
    """Makes the table and waits until every node knows it."""
    Session(words("NODES"), timeout=10).query(TABLE)
    for node in words("NODES"):
        until = clock() + 30
        while True:
            try:
                Session([node]).query(READ, ("none",))
                break
            except (NoAnswer, Refused):
                if clock() > until:
                    raise
                time.sleep(0.1)
