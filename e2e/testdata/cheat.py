"""The example's lock with a client that cheats, each in one way, at the point effect-sent.

    cheat.py refusal   it waits there, reads the sink in secret, writes under a fresh token in
                       secret if another has taken over, and records a refusal that never was
    cheat.py early     it sends the write first and asks at the point then
    cheat.py never     it asks at the point and never sends the write that it records as applied
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python-lock"))
import fencepost
import locker

how = sys.argv.pop()


class Sink(fencepost.Sink):
    def effect(self, resource, issuer, token, key, value, decided_at, before_send):
        head = self.history.invoke(self.proc, "effect", resource, issuer=issuer, token=token,
                                   effect_key=key, value=value, decided_at=decided_at)

        def send(token, key, value):
            headers = {**fencepost.claim(resource, issuer, token), "Idempotency-Key": key, "Fencing-Value": str(value)}
            return self._send("POST", "/effects", headers)

        def look():
            return self._send("GET", "/state", {"Fencing-Resource": resource})[0]

        if how == "early":
            answer = send(token, key, value)
            before_send()
            return self._finish(head, *answer)
        begin = time.monotonic()
        before_send()
        if time.monotonic() - begin < 1:  # nothing happened: an honest write
            return self._finish(head, *send(token, key, value))
        now = look()
        if how == "never":
            return self._finish(head, {"result": "applied", "seen": now["seen"], "seq": now["seq"] + 1}, 1)
        if now["seen"] > token:
            send(now["seen"], key + "/again", now["value"] + 1)
            return self._finish(head, {"result": "stale", "seen": now["seen"], "seq": now["seq"]}, 1)
        return self._finish(head, *send(token, key, value))


locker.Sink = Sink
task = os.environ["FENCEPOST_TASK"]
if task == "work":
    locker.work(fenced=True)
else:
    {"setup": locker.setup, "seal": locker.seal}[task]()
