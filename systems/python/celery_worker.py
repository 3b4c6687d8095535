"""Celery with Redis as its broker, as a child of the schedulers' program (systems/cmd/schedulers/child.go):
lines of JSON on standard input and output. The argument is the number of jobs at once; with 0 it only
puts some."""

import itertools
import json
import os
import signal
import sys
import threading
import time
import uuid

import celery.apps.worker
import celery.signals
import celery.worker.state
import redis
from celery import Celery
from celery.exceptions import Reject

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the parent says when to stop
parent = os.fdopen(os.dup(1), "w", buffering=1)  # standard output is the parent's; the library may print
os.dup2(2, 1)
speaking = threading.Lock()


def say(op, **fields):
    with speaking:
        parent.write(json.dumps({"op": op, **fields}) + "\n")


slots = int(sys.argv[-1])
ttl = int(os.environ["FENCEPOST_TTL_MS"]) / 1000
name = os.environ["FENCEPOST_KEYSPACE"]
url = "redis://" + os.environ["FENCEPOST_NODES"] + "/0"

app = Celery("fencepost", broker=url)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "global_keyprefix": name + "/",
        "visibility_timeout": ttl,  # after which a message that is not acknowledged is delivered again
        # How often somebody looks for these. By default kombu looks at every tenth tick of 10 s.
        "unacked_restore_interval": ttl / 2,
        "unacked_restore_throttle": 1,
    },
    task_default_queue=name,
    task_acks_late=True,  # a message is acknowledged after its run; by default before that
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)
owners = redis.Redis.from_url(url, decode_responses=True, socket_timeout=1)

# Runs that the parent has not ended, by number.
runs = {}
numbers = itertools.count(1)


def owns(lock, n, message):
    """Whether a job is this message's. Celery does not know jobs that are put twice, and neither order of
    publishing a message and noting that in Redis is right: what is noted first is lost if its process ends in
    between, what is noted afterwards is published twice. So it is published whenever it is put, and a job
    belongs to the first of its messages that runs; others are acknowledged and do nothing. What Celery delivers
    again is the same message."""
    key = f"{name}/owner/{lock}#{n}"
    return owners.set(key, message, nx=True) or owners.get(key) == message


@app.task(name="step")
def step(lock, n, message):
    try:
        if not owns(lock, n, message):
            return
        done, number = threading.Event(), next(numbers)
        run = runs[number] = {"done": done}
        say("run", id=number, lock=lock, n=n)
        done.wait()
        error = run["error"]
    except redis.RedisError as e:
        error = str(e)
    if error:  # a task that fails is acknowledged: it is put back in one transaction
        time.sleep(0.1)
        raise Reject(error, requeue=True)


def put(id, lock, n):
    try:
        step.apply_async((lock, n, str(uuid.uuid4())), task_id=f"{lock}#{n}", retry=False)
        say("answer", id=id)
    except Exception as e:
        say("answer", id=id, error=str(e) or repr(e))


def listen():
    for line in sys.stdin:
        message = json.loads(line)
        op = message["op"]
        if op == "put":
            # A put that Redis does not answer holds up nothing else.
            threading.Thread(target=put, args=(message["id"], message["lock"], message["n"]), daemon=True).start()
        elif op == "done":
            run = runs.pop(message["id"])
            run["error"] = message.get("error")
            run["done"].set()
        elif op == "stop":
            if slots == 0:
                os._exit(0)
            celery.worker.state.should_stop = 0  # as SIGTERM does: it takes no more, and waits for those that run
    os._exit(1)  # the parent is gone


class Worker(celery.apps.worker.Worker):
    def install_platform_tweaks(self, worker):
        """No handlers of signals."""


@celery.signals.worker_ready.connect
def ready(**_):
    say("ready")


if slots == 0:
    say("ready")
    listen()
threading.Thread(target=listen, daemon=True).start()
worker = Worker(
    app=app, pool="threads", concurrency=slots, hostname=os.environ["FENCEPOST_LIFE"] + "@" + name, loglevel="WARNING",
    quiet=True, without_gossip=True, without_mingle=True, without_heartbeat=True,
)
worker.start()
sys.stderr.flush()
os._exit(worker.exitcode or 0)
