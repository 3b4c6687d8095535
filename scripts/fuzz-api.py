"""Of scripts/fuzz-api: hooks of schemathesis, and what is asked before and after."""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib

KINDS = {"log"}  # http jobs may go nowhere by default


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def ready(base):
    """Waits until all shards have an owner: before, a 503 is right."""
    for _ in range(600):
        status, queues = get(base + "/api/v1/queues")
        if status == 200 and all(s.get("owner") for q in queues["items"] for s in q["shards"]):
            return
        time.sleep(0.2)
    sys.exit(f"not ready: {status} {queues}")


def check(base, path):
    """Looks for all that was acknowledged; what was due has to end within a minute."""
    jobs, schedules = {}, {}
    with open(path) as lines:
        for line in lines:
            a = json.loads(line)
            if a["kind"] == "job":
                jobs[a["queue"], a["id"]] = True
            else:
                schedules[a["queue"], a["id"]] = a["kind"] == "schedule"
    wrong, states = [], {}
    deadline = time.time() + 60
    waiting = list(jobs)
    while waiting:
        again = []
        for queue, id in waiting:
            status, job = get(f"{base}/api/v1/jobs/{id}?queue={queue}")
            if status != 200:
                wrong.append(f"job {id}: {status} {job}")
                continue
            if job["state"] in ("pending", "running") and job.get("due", "") <= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()):
                again.append((queue, id))
            else:
                states[job["state"]] = states.get(job["state"], 0) + 1
        waiting = again
        if waiting and time.time() > deadline:
            wrong += [f"job {id} is due and has not ended" for _, id in waiting]
            break
        time.sleep(1 if waiting else 0)
    kept = 0
    for (queue, key), there in schedules.items():
        status, schedule = get(f"{base}/api/v1/schedules/{urllib.parse.quote(key, safe='')}?queue={queue}")
        if status != (200 if there else 404):
            wrong.append(f"schedule {key!r}: {status} {schedule}")
        kept += there
    print(f"fuzz-api: {len(jobs)} acknowledged jobs ({states}), {kept} schedules and {len(schedules) - kept} deleted ones; {len(wrong)} are wrong")
    if wrong:
        sys.exit("\n".join(wrong[:20]))
    if len(jobs) < 3:
        sys.exit("too few jobs were taken to show anything")


if __name__ == "__main__":
    {"ready": ready, "check": check}[sys.argv[1]](*sys.argv[2:])
else:
    import schemathesis

    acknowledged = open(os.environ["FUZZ_ACKNOWLEDGED"], "a", buffering=1)
    ids = []

    WHEN = ["now", "2030-01-01T00:00:00Z", "@every 1h", "0 30 2 * * *"]

    def draw(value):
        """A number made of a value alone, so that a case stays the same when it is repeated."""
        return zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode())

    def sensible(job, n):
        """A job that can be taken: random text is hardly ever a kind, a queue or a time."""
        for name in ("kind", "taskId"):
            if name in job:
                job[name] = "log"
        for name in ("queue", "zone", "cron", "retry"):
            job.pop(name, None)
        if "schedule" in job:
            job["schedule"] = WHEN[n % len(WHEN)]
        if isinstance(job.get("then"), list):
            job["then"] = [sensible(t, n) for t in job["then"][:3] if isinstance(t, dict)]
        return job

    def timed(schedule, n):
        """The same for a schedule: of its timing what its kind takes."""
        schedule.pop("queue", None)
        timing = schedule.get("timing")
        if isinstance(timing, dict):
            kind = timing.get("kind")
            more = {"at": {"at": "2030-01-01T00:00:00Z"}, "cron": {"cron": "*/5 * * * * *", "zone": "Asia/Ho_Chi_Minh"}}
            if kind in ("fixed_rate", "fixed_delay"):
                more[kind] = {"every_seconds": 1 + n % 9}
            schedule["timing"] = {"kind": kind, **more.get(kind, {})} if isinstance(kind, str) else timing
        if schedule.get("misfire") != "all":
            schedule.pop("window_seconds", None)

    @schemathesis.hook
    def map_body(context, body):
        if not isinstance(body, dict) or (n := draw(body)) % 3 == 0:
            return body
        if isinstance(body.get("job"), dict):
            timed(body, n // 3)
            sensible(body["job"], n // 3)
        elif "kind" in body or "taskId" in body:
            sensible(body, n // 3)
        return body

    @schemathesis.hook
    def map_query(context, query):
        if query and draw(query) % 3:
            query.pop("queue", None)
        return query

    @schemathesis.hook
    def map_path_parameters(context, parameters):
        """Half of the ids are those of jobs that there are, and few keys are used often."""
        if parameters and isinstance(parameters.get("id"), str) and ids and len(parameters["id"]) % 2:
            parameters["id"] = ids[sum(map(ord, parameters["id"])) % len(ids)]
        if parameters and isinstance(parameters.get("key"), str) and len(parameters["key"]) % 3:
            parameters["key"] = "key-" + str(len(parameters["key"]) % 5)
        return parameters

    @schemathesis.hook
    def after_call(context, case, response):
        if response.status_code not in (200, 201, 202):
            return
        path = case.path
        if path.endswith("/jobs") and case.method == "POST" or "/schedules/" in path and case.method in ("PUT", "DELETE"):
            a = response.json()
            kind, name = "job", a["id"]
            if "schedule" in a:
                kind, name = "deleted" if case.method == "DELETE" else "schedule", a["schedule"]
            ids.append(a["id"])
            acknowledged.write(json.dumps({"kind": kind, "queue": a["queue"], "id": name}) + "\n")
