"""What a Python program needs to be driven and checked by fencepost (docs/own-system.md).

Nothing here is about locks: copy it into your own system and go on from there.
"""
import http.client
import json
import os
import threading
import time


def var(name, kind=str):
    return kind(os.environ["FENCEPOST_" + name])


def words(name):
    return [w for w in var(name).split(",") if w]


def now():
    """The clock of the history, the same for all processes of a machine."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class History:
    """Appends events to this life's file. One write each: what is written survives a SIGKILL."""

    def __init__(self):
        self.life = var("LIFE")
        self.fd = os.open(var("HISTORY"), os.O_WRONLY | os.O_APPEND)  # its header is there already
        self.lock, self.ids = threading.Lock(), 0

    def invoke(self, proc, op, key, **fields):
        """Call it before the first byte is sent. Returns what end wants."""
        with self.lock:  # ids are 1, 2, 3 … without gaps
            self.ids += 1
            head = {"proc": proc, "id": self.ids, "op": op, "key": key}
            self._write({**head, "type": "invoke", **fields})
        return head

    def end(self, head, outcome, **fields):
        """outcome is ok, fail or unknown."""
        self._write({**head, "type": outcome, **fields})

    def note(self, op, proc=None, **fields):
        self._write({"proc": proc or self.life, "type": "note", "op": op, **fields})

    def _write(self, event):
        event = {"ts": now(), **{k: v for k, v in event.items() if v is not None}}
        os.write(self.fd, json.dumps(event).encode() + b"\n")


class Http:
    """JSON requests over one connection, which is made anew after an error."""

    def __init__(self, url, timeout=None):
        host, _, self.path = url[len("http://"):].partition("/")
        self.conn = http.client.HTTPConnection(host, timeout=timeout)

    def ask(self, method, path, body=None):
        """Returns status and answer; raises OSError or HTTPException if none came."""
        status, _, a = self.send(method, path, {}, json.dumps(body) if body is not None else None)
        return status, a

    def send(self, method, path, headers, body=None):
        """The same with headers, both ways."""
        path = ("/" + self.path if self.path else "") + path
        try:
            self.conn.request(method, path, body, headers)
            resp = self.conn.getresponse()
            return resp.status, resp.headers, json.loads(resp.read())
        except (OSError, http.client.HTTPException):
            self.conn.close()
            raise
        except ValueError as e:
            self.conn.close()
            raise OSError("half an answer") from e


class Control:
    """Asks the harness. A client needs one of its own, as a point may hold it up."""

    def __init__(self, proc=None):
        self.http, self.proc = Http(var("CONTROL")), proc

    def ready(self):
        self.http.ask("POST", "/ready")

    def point(self, name, key):
        """Stands still here if the harness wants to. Returns seconds to stay, as a rule 0."""
        status, a = self.http.ask("POST", "/point", {"point": name, "proc": self.proc, "key": key})
        if status != 200:
            raise RuntimeError("point %s: %s" % (name, a["error"]))
        return a["hold_ms"] / 1000


def claim(resource, issuer, token):
    """What a caller claims, in the headers of its request."""
    return {"Fencing-Resource": resource, "Fencing-Issuer": issuer, "Fencing-Token": str(token)}


# What an answer of the sink repeats of its request.
REPEATED = ("Fencing-Resource", "Fencing-Token", "Idempotency-Key")


class Sink:
    """One client's way to the sink: records each call, sends it again until it is answered."""

    def __init__(self, history, proc, patience=8.0, fenced=True):
        self.history, self.proc, self.patience, self.fenced = history, proc, patience, fenced
        self.http = Http(var("SINK"), timeout=1.0)

    def raise_token(self, resource, issuer, token):
        head = self.history.invoke(self.proc, "raise", resource, issuer=issuer, token=token)
        return self._finish(head, *self._send("POST", "/raise", claim(resource, issuer, token)))

    def effect(self, resource, issuer, token, key, value, decided_at, before_send):
        head = self.history.invoke(self.proc, "effect", resource, issuer=issuer, token=token,
                                   effect_key=key, value=value, decided_at=decided_at)
        before_send()
        headers = {**claim(resource, issuer, token), "Idempotency-Key": key, "Fencing-Value": str(value)}
        return self._finish(head, *self._send("POST", "/effects" if self.fenced else "/lab/effects", headers))

    def get(self, resource):
        head = self.history.invoke(self.proc, "get", resource)
        a, _ = self._send("GET", "/state", {"Fencing-Resource": resource})
        if a is None:
            self.history.end(head, "unknown", error="no answer")
            return None
        self.history.end(head, "ok", **{k: a[k] for k in ("value", "seen", "seq")})
        return a["value"]

    def _send(self, method, path, headers):
        """Identical copies until one is answered: the answer, and how many were sent."""
        copies, until = 0, time.monotonic() + self.patience
        while copies == 0 or time.monotonic() < until:
            copies += 1
            try:
                status, h, a = self.http.send(method, path, headers)
                if any(h.get(name) != headers.get(name) for name in REPEATED):
                    time.sleep(0.02)  # the answer to another request
                    continue
                result = h.get("Fencing-Result")
                if result in ("invalid", "issuer"):
                    raise RuntimeError("the sink does not understand: " + a["error"])
                if method == "GET" and status == 200:
                    return a, copies
                if result:
                    return {"result": result, "seen": int(h["Fencing-Seen"]), "seq": int(h["Fencing-Seq"])}, copies
                time.sleep(0.02)  # no decision, whatever the status says
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
        return None, copies

    def _finish(self, head, a, copies):
        """Records the end and says whether the sink did as it was asked."""
        if a is None:
            self.history.end(head, "unknown", error="no answer")
            return False
        if a["result"] in ("applied", "duplicate"):
            self.history.end(head, "ok", **a)
            return True
        if copies > 1:  # refused, but an earlier copy may have been accepted
            self.history.end(head, "unknown", error=a["result"] + " after an unanswered copy")
        else:
            self.history.end(head, "fail", **a)
        return False
