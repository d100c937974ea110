/**
 * `npm run soak:service`: mixed reads and writes at the sandbox, for ten minutes by default.
 * Fails when an answer was a 5xx or nothing at all, when memory grew, or when a write that was acknowledged
 * is not there.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import autocannon, { type Result } from 'autocannon';
import { Checker } from './checker.ts';
import { type Service, startService } from './child.ts';
import { type Hook, openHook } from './hook.ts';
import { Claims, FlagClaims, type Ledger } from './ledger.ts';
import { judgeMemory } from './memory.ts';
import { reads } from './reads.ts';
import { writes } from './writes.ts';

const HELP = `npm run soak:service -- [--minutes N | --seconds N] [--writes N] [--state]
  --minutes  how long (default: 10)
  --writes   writes a second (default: 200)
  --state    keep the service's state in a SQLite file instead of memory`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    seconds: { type: 'string' },
    writes: { type: 'string', default: '200' },
    state: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const seconds = Number(values.seconds ?? Number(values.minutes ?? 10) * 60);
const writesPerSecond = Number(values.writes);
if (!(seconds >= 5) || !(writesPerSecond >= 1)) {
  console.error(HELP);
  process.exit(2);
}

const READERS = 8;
const WRITERS = 4;
const ROUNDS = 24;
/** For deliveries that were refused and come again. */
const SETTLE_MS = 30_000;

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-soak-'));
const service = await startService(values.state ? path.join(folder, 'state.sqlite') : undefined);
const problems: string[] = [];
try {
  await run(service);
} finally {
  await service.stop();
  rmSync(folder, { recursive: true, force: true });
}
for (const problem of problems) console.log(`FAILED  ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

async function run({ hello, state }: Service): Promise<void> {
  const ledger: Ledger = {
    mail: new Claims('soak-'),
    folders: new Claims('INBOX.soak-'),
    flags: new FlagClaims(),
  };
  const hook = await openHook(hello);
  const checker = await Checker.open(hello, ledger);
  const common = { url: hello.url, duration: seconds };
  const load = Promise.all([
    autocannon({ ...common, connections: READERS, requests: reads(hello) }),
    autocannon({
      ...common,
      connections: WRITERS,
      overallRate: writesPerSecond,
      requests: writes(hello, ledger),
    }),
  ]);
  let running = true;
  const over = load.finally(() => {
    running = false;
  });
  over.catch(() => {});
  const heap: number[] = [];
  let rss = 0;
  const sent = new Set<string>();
  while (running) {
    await Promise.race([delay((seconds * 1000) / ROUNDS), over]);
    for (const id of ledger.mail.mustBeThere()) sent.add(id);
    await checker.checkMail();
    const now = await state();
    heap.push(now.heap);
    rss = Math.max(rss, now.rss);
  }
  const [readers, writers] = await load;
  for (const id of ledger.mail.mustBeThere()) sent.add(id);
  await checker.checkMail();
  await checker.checkRest();
  await checkDeliveries(hook, sent);
  const last = await state();
  problems.push(...checker.problems, ...last.failures);
  const memory = judgeMemory(heap);
  if (!memory.flat)
    problems.push(`memory grew from ${mb(memory.before)} to ${mb(memory.after)} MB`);
  for (const [status, count] of Object.entries(last.requests.byStatus)) {
    if (status === '0' || Number(status) >= 500) problems.push(`${count} answers of ${status}`);
  }
  judge('reads', readers);
  judge('writes', writers);
  await checker.close();
  await hook.close();
  console.log(`requests  ${last.requests.total} answered by the service`);
  console.log(
    `writes    ${ledger.mail.total} mails, ${ledger.flags.total} flag changes, ${ledger.folders.total} folders acknowledged`,
  );
  console.log(`webhook   ${hook.taken.size} delivered, ${hook.refused()} refused and sent again`);
  console.log(
    `memory    ${mb(memory.before)} MB early, ${mb(memory.after)} MB late (heap and buffers, collected); RSS at most ${mb(rss)} MB`,
  );
}

/** Every acknowledged mail was delivered in the end. */
async function checkDeliveries(hook: Hook, sent: ReadonlySet<string>): Promise<void> {
  const until = Date.now() + SETTLE_MS;
  const missing = () => [...sent].filter((id) => !hook.taken.has(id));
  while (missing().length > 0 && Date.now() < until) await delay(100);
  const lost = missing();
  if (lost.length > 0)
    problems.push(`${lost.length} mails were never delivered, such as ${lost[0]}`);
}

function judge(name: string, result: Result): void {
  const { duration, requests, latency, throughput, errors, timeouts, non2xx } = result;
  console.log(
    `${name.padEnd(8)}  ${requests.total} in ${duration} s: ${Math.round(requests.average)}/s, ${mb(throughput.average)} MB/s, p50 ${latency.p50} ms, p99 ${latency.p99} ms, max ${latency.max} ms`,
  );
  if (errors > 0) problems.push(`${errors} ${name} broke off, ${timeouts} of them by time-out`);
  if (non2xx > 0) {
    problems.push(`${non2xx} ${name} were refused: ${JSON.stringify(result.statusCodeStats)}`);
  }
}

function mb(bytes: number): string {
  return (bytes / 1_000_000).toFixed(1);
}
