// BullMQ, a job queue on Redis, as a child of the schedulers' program (systems/cmd/schedulers/child.go):
// lines of JSON on standard input and output. The argument is the number of jobs at once; with 0 it only
// puts some.
import { createInterface } from 'node:readline';
import { Queue, Worker } from 'bullmq';

process.on('SIGTERM', () => {}); // the parent says when to stop
console.log = console.error;     // standard output is the parent's

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const slots = Number(process.argv.at(-1));
const ttl = Number(process.env.FENCEPOST_TTL_MS);
const [host, port] = process.env.FENCEPOST_NODES.split(':');
const at = {
  prefix: process.env.FENCEPOST_KEYSPACE,
  connection: { host, port: Number(port), maxRetriesPerRequest: null },
};
const failed = (error) => console.error(`bullmq: ${error.message}`); // what it survives

// A job with the ID of one that there is, or was, is not added: completed ones are kept.
const queue = new Queue('steps', {
  ...at,
  defaultJobOptions: { attempts: 400, backoff: { type: 'fixed', delay: 100 } },
});
queue.on('error', failed);

// Runs that the parent has not ended, by number.
const runs = new Map();
let last = 0;

// run hands a run of a job to the parent. Jobs of a lock are numbered, and the starts of a job are counted,
// those after a stall too: the token rises with each run of the lock's jobs.
const run = (job, _token, signal) => new Promise((resolve, reject) => {
  const id = ++last;
  runs.set(id, { resolve, reject });
  signal.addEventListener('abort', () => say({ op: 'cancel', id }));
  say({ op: 'run', id, ...job.data, token: job.data.n * 1000 + job.attemptsStarted });
});

let worker;
if (slots > 0) {
  worker = new Worker('steps', run, {
    ...at,
    concurrency: slots,
    lockDuration: ttl,        // renewed at half of it
    stalledInterval: ttl / 2, // how often somebody looks for jobs without a lock
    maxStalledCount: 400,     // by default a job that stalls for the second time fails, and its chain is over
  });
  worker.on('error', failed);
  worker.on('lockRenewalFailed', (jobs) => jobs.forEach((job) => worker.cancelJob(job)));
}

const ops = {
  put: ({ id, lock, n }) => queue.add('step', { lock, n }, { jobId: `${lock}#${n}` }).then(
    () => say({ op: 'answer', id }),
    (error) => say({ op: 'answer', id, error: error.message }),
  ),
  done: ({ id, error }) => {
    const { resolve, reject } = runs.get(id);
    runs.delete(id);
    if (error) reject(new Error(error)); else resolve();
  },
  stop: async () => {
    await worker?.close(); // takes no more jobs, and waits for those that run
    await queue.close();
    process.exit(0);
  },
};
const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const message = JSON.parse(line);
  ops[message.op](message);
});
lines.on('close', () => process.exit(1)); // the parent is gone
await queue.waitUntilReady();
await worker?.waitUntilReady();
say({ op: 'ready' });
