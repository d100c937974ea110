import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { z } from 'zod';

const PROGRAM = fileURLToPath(new URL('../../dist/mailkeep.cjs', import.meta.url));

/**
 * Measures a fleet that `mailkeep fleet demo --keep` shows: what its worker costs while no mail arrives, and, once it is
 * killed, how long it takes until another one without a folder lets all shards be read.
 *
 *     node test/bench/fleet-idle.ts /tmp/mkd-… --minutes 10
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    minutes: { type: 'string', default: '10' },
    program: { type: 'string', default: PROGRAM },
  },
});
const [folder = ''] = positionals;
const minutes = Number(values.minutes);
/** Nothing was shipped for this time: the first syncs have ended. */
const QUIET_MS = 90_000;
const LOOK_MS = 5_000;
const TICKS_PER_SECOND = 100;

const nodes = ['node-1', 'node-2'].map((name) => path.join(folder, name));
const [node = ''] = nodes.filter((dir) => workerOf(dir) !== undefined);
const [next = ''] = nodes.filter((dir) => dir !== node);
const worker = workerOf(node) ?? 0;
const { registry } = z
  .object({ fleet: z.object({ registry: z.string() }) })
  .parse(JSON.parse(readFileSync(path.join(node, 'config.json'), 'utf8'))).fleet;
const variables = readFileSync(`/proc/${worker}/environ`, 'latin1').split('\0');
const env = Object.fromEntries(variables.map((one) => one.split(/=(.*)/s).slice(0, 2)));
const sql = new Client({ connectionString: registry });
await sql.connect();
const messages = async (): Promise<number> =>
  Number((await sql.query('SELECT sum(messages) AS sum FROM shard')).rows[0].sum);

let known = await messages();
for (let quietMs = 0; quietMs < QUIET_MS; quietMs += LOOK_MS) {
  await delay(LOOK_MS);
  const now = await messages();
  if (now !== known) quietMs = 0;
  known = now;
}
const { rows } = await sql.query<{ name: string }>(
  'SELECT min(name) AS name FROM account GROUP BY shard',
);
const accounts = Number((await sql.query('SELECT count(*) AS count FROM account')).rows[0].count);
console.log(JSON.stringify({ accounts, shards: rows.length, messages: known }));

await sql.query(`ALTER SYSTEM SET log_statement = 'all'`);
await sql.query('SELECT pg_reload_conf()');
const log = path.join(folder, 'pg', 'postgres.log');
const before = { cpu: cpuSeconds(worker), bytes: statSync(log).size };
await delay(minutes * 60_000);
const said = readFileSync(log).subarray(before.bytes).toString('utf8');
const statements = said.match(/^.*LOG: {2}(?:statement|execute)/gm)?.length ?? 0;
const cpu = cpuSeconds(worker) - before.cpu;
const cpuPerHour = (cpu / accounts / minutes) * 60;
console.log(JSON.stringify({ minutes, cpu, cpuPerHour, perSecond: statements / minutes / 60 }));
await sql.end();

rmSync(path.join(next, 'cache'), { recursive: true, force: true });
const other = spawn(process.execPath, [values.program, 'fleet', 'worker'], {
  cwd: next,
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
});
const lines = createInterface({ input: other.stdout });
const held: number[] = [];
let killedAt = 0;
lines.on('line', (line) => {
  const { msg, time } = JSON.parse(line);
  if (msg === 'shard taken over') held.push(Date.parse(time) - killedAt);
});
while (!String((await once(lines, 'line'))[0]).includes('"readers are let in"'));
for (const { name } of rows) await readable(name);
killedAt = Date.now();
process.kill(worker, 'SIGKILL');
const readableMs: number[] = [];
for (const { name } of rows) readableMs.push((await readable(name)) - killedAt);
// What the worker has said meanwhile is read now.
await delay(LOOK_MS);
console.log(JSON.stringify({ heldMs: held, readableMs }));
other.kill('SIGTERM');
await once(other, 'exit');

/** Resolves with the time once a search at the next node finds mail of an account. */
async function readable(account: string): Promise<number> {
  const line = [values.program, 'search', '--fleet-account', account, '--json', 'folder:INBOX'];
  while (spawnSync(process.execPath, line, { cwd: next, env }).stdout.length === 0) {
    await delay(500);
  }
  return Date.now();
}

/** Returns the process of the worker that runs in a folder. */
function workerOf(dir: string): number | undefined {
  const pids = spawnSync('pgrep', ['-f', 'fleet worker$'], { encoding: 'utf8' }).stdout.trim();
  const workers = pids === '' ? [] : pids.split('\n').map(Number);
  return workers.find((pid) => readlinkSync(`/proc/${pid}/cwd`) === dir);
}

/** Processor time of a process and its descendants, also of those that have ended. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  const pids = children === '' ? [] : children.split(' ').map(Number);
  return pids.reduce((sum, one) => sum + cpuSeconds(one), ticks / TICKS_PER_SECOND);
}
