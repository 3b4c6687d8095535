"""A fenced lock on one Redis server, for `fencepost own check`, and the mistakes that a program can
make of the contract, one at a time.

    redislock.py sound        SET NX PX and INCR in one script, so that each grant has a token
    redislock.py MISTAKE      one of those in the text below
"""
import json
import os
import random
import signal
import socket
import sys
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python-lock"))
import fencepost
from fencepost import Control, now, var, words

how = sys.argv[1]
ABSENT = {"absent": True, "fence": 0, "beat": 0, "attempt": "", "holder": "", "ttl_ms": 0}
POINTS = ["holding", "acquire-sent", "renew-sent", "release-sent", "effect-sent"]
ACQUIRE = "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return redis.call('incr',KEYS[2]) else return 0 end"
RENEW = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


def clock():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Redis:
    def __init__(self):
        host, port = words("NODES")[0].split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.answers = self.socket.makefile("rb")

    def ask(self, *args):
        args = [str(a).encode() for a in args]
        self.socket.sendall(b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in args))
        line = self.answers.readline().rstrip()
        if line[:1] == b"-":
            raise RuntimeError(line.decode())
        if line[:1] == b":":
            return int(line[1:])
        if line[:1] == b"$":
            return None if line == b"$-1" else self.answers.read(int(line[1:]) + 2)[:-2].decode()
        return line[1:].decode()

    def script(self, text, *args, keys):
        names = ["%s/%s" % (var("KEYSPACE"), k) for k in keys]
        return self.ask("EVAL", text, len(names), *names, *args)


class History(fencepost.History):
    def invoke(self, proc, op, key, **fields):
        with self.lock:
            if how == "skips-ids" and self.ids == 5:
                self.ids += 2
        return super().invoke(proc, op, key, **fields)

    def _write(self, event):
        shift = {"other-clock": 5 * 10**9, "slow-clock": -5 * 10**9}.get(how, 0)
        event = {"ts": now() + shift, **{k: v for k, v in event.items() if v is not None}}
        if shift:
            for field in ("decided_at", "sends"):
                if field in event:
                    v = event[field]
                    event[field] = [t + shift for t in v] if field == "sends" else v + shift
        line = json.dumps(event).encode() + b"\n"
        if how == "no-event" and event["op"] == "get":
            line = b"{}\n"
        os.write(self.fd, line)


class Client:
    def __init__(self, history, number, stopping):
        self.proc = "%s/c%d" % (history.life, number + 1)
        self.history, self.stopping, self.grants = history, stopping, 0
        self.redis, self.sink, self.control = Redis(), fencepost.Sink(history, self.proc), Control(self.proc)
        self.random = random.Random("%s %s" % (var("SEED"), self.proc))
        self.ttl, self.margin = var("TTL_MS", int), var("MARGIN_MS", int) / 1000

    def run(self):
        while not self.stopping.is_set():
            for name in words("LOCKS"):
                call = self.history.invoke(self.proc, "lock", name)
                if self.acquire(name):
                    self.history.end(call, "ok", token=self.token)
                    self.grants += 1
                    self.critical(name)
                    self.release(name)
                else:
                    self.history.end(call, "fail", error="given up")
            self.stopping.wait(var("THINK_MS", int) / 1000)

    def point(self, name, key):
        return 0 if how == "never-asks" and name == "release-sent" else self.control.point(name, key)

    def change(self, op, name, old, new, ask):
        """Records one change of a lock's entry, and asks for it once. None: nobody knows."""
        if how == "late-invoke" and op == "acquire":
            first, sent, answer = clock(), now(), ask()
            head = self.history.invoke(self.proc, op, name, **{"from": old, "to": new})
            self.point(op + "-sent", name)
            sent = now()
        else:
            head = self.history.invoke(self.proc, op, name, **{"from": old, "to": new})
            self.point(op + "-sent", name)
            first, sent = clock(), now()
            answer = ask()
            if how == "late-sends":
                sent = now()
        self.history.end(head, "ok" if answer else "fail", sends=[sent])
        return answer, first

    def acquire(self, name):
        until = clock() + var("ACQUIRE_TIMEOUT_MS", int) / 1000
        while not self.stopping.is_set() and clock() < until:
            self.version = {"fence": now() // 1000, "beat": 0, "attempt": uuid.uuid4().hex, "holder": self.proc, "ttl_ms": self.ttl}
            args = (self.version["attempt"], self.ttl if how != "expires-late" else 30000)
            self.token, first = self.change("acquire", name, ABSENT, self.version,
                                            lambda: self.redis.script(ACQUIRE, *args, keys=(name, name + "/token")))
            if self.token:
                self.deadline = first + self.ttl / 1000 - self.margin
                return True
            self.stopping.wait(0.02 * (0.5 + self.random.random()))
        return False

    def valid(self):
        return clock() < self.deadline

    def critical(self, name):
        resource = "res-" + name
        if not self.sink.raise_token(resource, name, self.token):
            return
        if how == "secret-get":
            self.sink.http.send("GET", "/state", {"Fencing-Resource": resource})
        value = self.sink.get(resource)
        decided = now()
        if value is None or not self.valid():
            return
        self.history.note("start", self.proc, key=name, token=self.token, decided_at=decided)
        hold = self.point("holding", name) or var("HOLD_MS", int) / 1000
        self.hold(name, 0.02 if how == "works-short" else hold)
        decided = now()
        if self.valid():
            key = "%s/%s#%d" % (name, self.proc, self.grants)
            before = lambda: self.point("effect-sent", name)
            if how == "does-not-wait":
                before = lambda: (threading.Thread(target=Control(self.proc).point, args=("effect-sent", name), daemon=True).start(), time.sleep(0.3))
            self.sink.effect(resource, name, self.token, key, value + 1, decided, before)
        self.history.note("finish", self.proc, key=name, token=self.token)

    def hold(self, name, seconds):
        until, renew = clock() + seconds, clock() + self.ttl / 3000
        while clock() < until and self.valid():
            if clock() >= renew:
                new = {**self.version, "beat": self.version["beat"] + 1}
                done, first = self.change("renew", name, self.version, new,
                                          lambda: self.redis.script(RENEW, self.version["attempt"], self.ttl, keys=(name,)))
                if not done:
                    self.deadline = 0
                elif self.valid():
                    self.version, self.deadline, renew = new, first + self.ttl / 1000 - self.margin, first + self.ttl / 3000
            time.sleep(max(0, min(0.02, until - clock())))

    def release(self, name):
        if self.valid():
            done, _ = self.change("release", name, self.version, ABSENT,
                                  lambda: self.redis.script(RELEASE, self.version["attempt"], keys=(name,)))
            if done:
                return
        self.history.note("lease-lost", self.proc, key=name, token=self.token, error="its deadline has passed")


def setup():
    Redis().ask("PING")
    if how == "setup-fails":
        sys.exit("no such table")
    if how == "bad-json":
        print("connecting …")
    promises = ["P3", "P4", "P7", "P8", "P10"] + (["P13"] if how == "promises-too-much" else [])
    print(json.dumps({"points": [] if how == "no-points" else POINTS, "promises": promises}))


def work():
    history, stopping = History(), threading.Event()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if how == "deaf" else lambda *_: stopping.set())
    if how == "no-points":
        Client.point = lambda *_: 0
    threads = [threading.Thread(target=Client(history, n, stopping).run, daemon=True) for n in range(var("CLIENTS", int))]
    Control().ready()
    for t in threads:
        t.start()
    if how == "dies":
        time.sleep(3)
        sys.exit("out of ideas")
    for t in threads:
        t.join()
    if how != "no-exit-note":
        history.note("exit")


def seal():
    if how == "no-seal":
        return
    history, redis = History(), Redis()
    version = {"fence": now() // 1000, "beat": 0, "attempt": uuid.uuid4().hex, "holder": "", "ttl_ms": var("TTL_MS", int)}

    def read(name):
        look = history.invoke(history.life, "read", name)
        holder = redis.ask("GET", "%s/%s" % (var("KEYSPACE"), name))
        history.end(look, "ok", row={**version, "attempt": holder} if holder else ABSENT)
        return holder

    for name in words("LOCKS"):
        while redis.ask("GET", "%s/%s" % (var("KEYSPACE"), name)):
            time.sleep(0.05)  # of a client that was killed
        read(name)
        op = history.invoke(history.life, "seal", name, **{"from": ABSENT, "to": version})
        sent = now()
        redis.ask("SET", "%s/%s" % (var("KEYSPACE"), name), version["attempt"], "NX")
        history.end(op, "ok", sends=[sent])
        read(name)
    history.note("exit")


{"setup": setup, "work": work, "seal": seal}[var("TASK")]()
