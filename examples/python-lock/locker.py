#!/usr/bin/env python3
"""A fenced lock on Cassandra's lightweight transactions, as fencepost drives and checks it.

    fencepost chaos pause-worker --system='exec:python3 examples/python-lock/locker.py'

A lock is a row (fence, beat, attempt, holder, ttl). Each change is one compare-and-set that
names the whole row which it replaces, so that a request which was held up somewhere can do
nothing once anything else has happened. A grant sets fence + 1, and that is its token: it goes
with every write to the sink, which refuses a lower one than it has seen. Others take a lock over
when they have seen its row unchanged for its ttl, by their own clock. --no-fence is the mistake
to try: its writes are not checked by the sink.
"""
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
import uuid

from cql import NoAnswer
from fencepost import Control, History, Sink, now, var, words
from rows import STATEMENTS, Row, Rows, clock, make_table

POINTS = ["holding", "acquire-sent", "renew-sent", "release-sent", "effect-sent"]
PROMISES = ["P1", "P2", "P3", "P4", "P6", "P7", "P8", "P9", "P10", "P11", "P13"]


class Client:
    """Takes a lock, writes to what it protects, releases it, and begins again."""

    def __init__(self, history, number, stopping, fenced):
        self.proc = "%s/c%d" % (history.life, number + 1)
        self.history, self.stopping, self.number, self.grants = history, stopping, number, 0
        self.rows = Rows(history, self.proc, first=number)
        self.sink = Sink(history, self.proc, fenced=fenced)
        self.control = Control(self.proc)
        self.random = random.Random("%s %s" % (var("SEED"), self.proc))
        self.ttl, self.margin = var("TTL_MS", int), var("MARGIN_MS", int) / 1000

    def run(self):
        locks, think = words("LOCKS"), var("THINK_MS", int) / 1000
        while not self.stopping.is_set():
            name = locks[self.number] if var("PICK") == "own" else self.random.choice(locks)
            call = self.history.invoke(self.proc, "lock", name)
            if self.acquire(name):
                self.history.end(call, "ok", token=self.row.fence)
                self.grants += 1
                self.critical(name)
                self.release(name)
            else:
                self.history.end(call, "fail", error="given up")
            self.stopping.wait(think * (0.5 + self.random.random()))

    def change(self, kind, name, new, **kw):
        return self.rows.cas(kind, name, self.row, new, before_send=lambda: self.control.point(kind + "-sent", name), **kw)

    def trust(self, first):
        self.deadline = first + self.ttl / 1000 - self.margin

    def valid(self):
        return clock() < self.deadline

    def acquire(self, name):
        seen, since, pause = None, 0, 0.02
        give_up = clock() + var("ACQUIRE_TIMEOUT_MS", int) / 1000
        while not self.stopping.is_set() and clock() < give_up:
            try:
                row = self.rows.look(name)
            except NoAnswer:
                self.stopping.wait(0.05)
                continue
            held = row is not None and row.holder != ""
            if held and row != seen:
                seen, since = row, clock()  # its ttl counts from here: the look has returned
            if not held or clock() - since >= row.ttl_ms / 1000:
                self.row, new = row, Row(row.fence + 1 if row else 1, 0, uuid.uuid4().hex, self.proc, self.ttl)
                outcome, first = self.change("acquire", name, new, takeover=held or None)
                if outcome == "ok":
                    self.row = new
                    self.trust(first)
                    if self.valid():
                        return True
                    self.change("release", name, self.free(), copies=1)  # known too late: given back
                seen = None
            # Who has waited for long looks more seldom: compare-and-sets that meet cost both time.
            self.stopping.wait(pause * (0.5 + self.random.random()))
            pause = min(pause * 1.5, 0.25)
        return False

    def critical(self, name):
        resource, token = "res-" + name, self.row.fence
        # First the token is made known: whatever an older holder writes is then refused,
        # or is in what is read next.
        if not self.sink.raise_token(resource, name, token):
            return
        value = self.sink.get(resource)
        decided = now()  # before the look at the lease
        if value is None or not self.valid():
            return
        self.history.note("start", self.proc, key=name, token=token, decided_at=decided)
        hold = self.control.point("holding", name) or var("HOLD_MS", int) / 1000 * (0.5 + self.random.random())
        self.hold(name, hold)
        decided = now()
        if self.valid():  # a process can be stopped right after this line: then the sink must refuse
            self.sink.effect(resource, name, token, "%s/%s#%d" % (name, self.proc, self.grants), value + 1,
                             decided, before_send=lambda: self.control.point("effect-sent", name))
        self.history.note("finish", self.proc, key=name, token=token)

    def hold(self, name, seconds):
        """The protected work; the lease is renewed beside it."""
        until, renew = clock() + seconds, clock() + self.ttl / 3000
        while clock() < until and self.valid():
            if clock() >= renew:
                new = self.row._replace(beat=self.row.beat + 1)
                outcome, first = self.change("renew", name, new)
                if outcome != "ok":
                    self.deadline = 0  # perhaps it took effect; nothing is built on that
                elif self.valid():  # a lapsed lease is never revived
                    self.row = new
                    self.trust(first)
                    renew = first + self.ttl / 3000
            time.sleep(max(0, min(0.02, until - clock())))

    def free(self):
        return Row(self.row.fence, self.row.beat + 1, uuid.uuid4().hex, "", self.ttl)

    def release(self, name):
        new = self.free()
        while self.valid():
            outcome, _ = self.change("release", name, new, copies=1)
            if outcome == "ok" or outcome == "fail":
                return
        self.history.note("lease-lost", self.proc, key=name, token=self.row.fence, error="its deadline has passed")


def setup():
    """Once, before all workers: the table, and what this program offers."""
    make_table()
    print(json.dumps({"points": POINTS, "promises": PROMISES}))


def work(fenced):
    history, stopping = History(), threading.Event()
    threading.excepthook = lambda e: (traceback.print_exception(e.exc_value), os._exit(1))  # not one client less
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    for s in STATEMENTS:
        history.note("statement", statement=s)
    threads = [threading.Thread(target=Client(history, n, stopping, fenced).run) for n in range(var("CLIENTS", int))]
    Control().ready()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    history.note("exit")


def seal():
    """Once, when all workers are gone: a last compare-and-set on every row, after which no
    request that is still on its way can do anything, and a look at what it left."""
    rows = Rows(history := History(), history.life)
    for name in words("LOCKS"):
        outcome = "fail"
        while outcome != "ok":
            row = rows.read(name)
            outcome, _ = rows.cas("seal", name, row, Row(row.fence + 1 if row else 1, 0, uuid.uuid4().hex, "", var("TTL_MS", int)))
        rows.read(name)
    history.note("exit")


if __name__ == "__main__":
    task = var("TASK")
    if task == "work":
        work(fenced="--no-fence" not in sys.argv)
    else:
        {"setup": setup, "seal": seal}[task]()
