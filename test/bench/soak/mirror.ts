/**
 * `npm run soak:mirror`: the API over an archive of 50,000 messages. First the time of single answers over loopback, then
 * a hundred clients at once; then the same of the tools of `/mcp`. Fails when an answer was an error or nothing at all,
 * when a tool refused, or when memory grew.
 */
import { readFileSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import autocannon, { type SoakRequest } from 'autocannon';
import { Pool } from 'undici';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, start, workplace } from '../../cli/child.ts';
import { judgeMemory } from './memory.ts';

const HELP = `npm run soak:mirror -- [--messages N] [--seconds N] [--clients N]
  --messages  messages of the archive (default: 50000)
  --seconds   how long the clients ask the API, and then the tools (default: 60)
  --clients   how many of them ask the API (default: 100)
  --assistants  how many ask the tools (default: 16)`;

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '50000' },
    seconds: { type: 'string', default: '60' },
    clients: { type: 'string', default: '100' },
    assistants: { type: 'string', default: '16' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const [messages, seconds] = [values.messages, values.seconds].map(Number);
const [clients, assistants] = [values.clients, values.assistants].map(Number);
if (
  !(Number(messages) >= 1000) ||
  !(Number(seconds) >= 5) ||
  !(Number(clients) >= 1) ||
  !(Number(assistants) >= 1)
) {
  console.error(HELP);
  process.exit(2);
}

const TIMED = 200;
const TIMED_TOOLS = 50;
const ROUNDS = 24;
const hello = z.object({ apiUrl: z.string(), mcpUrl: z.string() });
const created = z.object({ secret: z.string() });
const folders = z.object({ data: z.array(z.object({ path: z.string(), messageCount: z.int() })) });
const page = z.object({ data: z.array(z.object({ uid: z.int() })) });
const called = z.object({
  result: z.object({
    isError: z.literal(false).optional(),
    structuredContent: z.looseObject({ notice: z.string() }),
  }),
});

const file = z.object({ message: z.string(), number: z.int(), type: z.string() });
const found = z.object({ messages: z.array(z.object({ id: z.string() })) });
const listed = z.object({
  attachments: z
    .array(file)
    .transform((files) => files.filter(({ type }) => type.includes('text/csv')))
    .pipe(z.tuple([file], file)),
});

const problems: string[] = [];
const sandbox = await startSandbox({ seed: 1, mail: { messages: Number(messages) } });
const place = workplace(sandbox);
try {
  const synced = await mailkeep(['sync', '--quiet', '--config', place.config]);
  if (synced.code !== 0) throw new Error(synced.stderr);
  const token = await mailkeep(['token', 'create', '--json', '--data', place.data]);
  const { secret } = created.parse(JSON.parse(token.stdout));
  const web = start(['web', '--json', '--listen', '127.0.0.1:0', '--data', place.data]);
  const [line] = await new Promise<Buffer[]>((resolve) =>
    web.child.stdout.once('data', (chunk: Buffer) => resolve([chunk])),
  );
  const { apiUrl, mcpUrl } = hello.parse(JSON.parse(String(line)));
  const pid = web.child.pid ?? 0;
  try {
    await run(sandbox, apiUrl, secret, pid);
    await runTools(mcpUrl, secret, pid);
  } finally {
    web.child.kill('SIGTERM');
    await web.ended;
  }
} finally {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
}
for (const problem of problems) console.log(`FAILED  ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

async function run(
  { mailboxes: [mailbox] }: Sandbox,
  apiUrl: string,
  secret: string,
  pid: number,
): Promise<void> {
  const headers = { authorization: `Bearer ${secret}` };
  const pool = new Pool(apiUrl, { connections: 1 });
  const get = async (target: string): Promise<Buffer> => {
    const { statusCode, body } = await pool.request({ method: 'GET', path: target, headers });
    const bytes = Buffer.from(await body.arrayBuffer());
    if (statusCode !== 200) problems.push(`${statusCode} for ${target}`);
    return bytes;
  };
  const m = `/api/v1/mailboxes/${mailbox?.resourceId ?? ''}`;
  const json = async (target: string): Promise<unknown> => JSON.parse(String(await get(target)));
  const all = folders.parse(await json(`${m}/folders?perPage=100`)).data;
  const largest = all.toSorted((a, b) => b.messageCount - a.messageCount)[0];
  if (largest === undefined) throw new Error('no folder');
  const at = `${m}/folders/${encodeURIComponent(largest.path)}/messages`;
  const pages = Math.ceil(largest.messageCount / 100);
  const spread = (i: number) => 1 + ((i * 37) % pages);
  await timed('page of 100, each once', (i) => get(`${at}?perPage=100&page=${spread(i)}`));
  await timed('page of 100, again', (i) => get(`${at}?perPage=100&page=${spread(i)}`));
  const { data } = page.parse(await json(`${at}?perPage=100&page=${Math.ceil(pages / 2)}`));
  const uids = data.map(({ uid }) => uid);
  await timed('page of 100 by date', (i) => get(`${at}?perPage=100&sort=-date&page=${spread(i)}`));
  await timed('source', (i) => get(`${at}/${uids[i % uids.length]}/source`));
  await timed('text', (i) => get(`${at}/${uids[i % uids.length]}/text`));
  await pool.close();
  await underLoad(apiUrl, pid, Number(clients), [
    { method: 'GET', path: `${at}?perPage=100`, headers },
    { method: 'GET', path: `${at}?perPage=100&page=${Math.ceil(pages / 3)}`, headers },
    { method: 'GET', path: `${m}/folders`, headers },
    ...uids.slice(0, 7).map((uid) => ({
      method: 'GET' as const,
      path: `${at}/${uid}/source`,
      headers,
    })),
  ]);
}

/** Asks each tool alone, and then all of them at once. */
async function runTools(mcpUrl: string, secret: string, pid: number): Promise<void> {
  const { origin, pathname: path } = new URL(mcpUrl);
  const headers = {
    authorization: `Bearer ${secret}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const bodyOf = (name: string, args: object) =>
    JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
      params: { name, arguments: args },
    });
  const pool = new Pool(origin, { connections: 1 });
  const call = async (name: string, args: object) => {
    const body = bodyOf(name, args);
    const answer = await pool.request({ method: 'POST', path, headers, body });
    const text = await answer.body.text();
    const parsed = called.safeParse(JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text));
    if (!parsed.success) problems.push(`${name}: ${answer.statusCode} ${text.slice(0, 300)}`);
    return parsed.data?.result.structuredContent;
  };
  const { messages: newest } = found.parse(await call('search', { limit: 50 }));
  const { attachments } = listed.parse(
    await call('list_attachments', { query: 'mime:text/csv', limit: 20 }),
  );
  const idAt = (i: number) => newest[i % newest.length]?.id ?? '';
  const fileAt = (i: number) => attachments[i % attachments.length] ?? attachments[0];
  const calls = (i: number) =>
    [
      ['search', { query: `after:2020 is:unread`, limit: 20 }],
      ['search', { query: 'invoice OR report', limit: 20, facets: true }],
      ['get_message', { id: idAt(i) }],
      ['get_thread', { id: idAt(i + 7) }],
      ['list_attachments', { limit: 20 }],
      ['get_attachment_text', { id: fileAt(i).message, number: fileAt(i).number }],
      ['list_folders', {}],
      ['aggregate', { by: 'month', query: 'has:attachment' }],
      ['status', {}],
    ] as const;
  for (const [at, [name, args]] of calls(0).entries())
    await timed(
      `${name} ${JSON.stringify(args).slice(0, 60)}`,
      (i) => call(name, calls(i)[at]?.[1] ?? args),
      TIMED_TOOLS,
    );
  await pool.close();
  await underLoad(
    origin,
    pid,
    Number(assistants),
    [0, 1].flatMap((i) =>
      calls(i).map(([name, args]) => ({
        method: 'POST' as const,
        path,
        headers,
        body: bodyOf(name, args),
      })),
    ),
    (body) => !body.includes('"isError":true') && body.includes('"structuredContent"'),
  );
}

/** Lets all clients ask for a while. */
async function underLoad(
  url: string,
  pid: number,
  connections: number,
  requests: readonly SoakRequest[],
  isAnswer: (body: string) => boolean = () => true,
): Promise<void> {
  const memory: number[] = [];
  let refused = 0;
  const onResponse = (_: number, body: string) => {
    if (!isAnswer(body)) refused += 1;
  };
  const load = Promise.resolve(
    autocannon({
      ...{ url, duration: Number(seconds), connections, timeout: 60 },
      requests: requests.map((request) => ({ ...request, onResponse })),
    }),
  );
  let running = true;
  const over = load.finally(() => {
    running = false;
  });
  over.catch(() => {});
  while (running) {
    await Promise.race([delay((Number(seconds) * 1000) / ROUNDS), over]);
    memory.push(residentOf(pid));
  }
  const result = await load;
  console.log(
    `${connections} clients: ${result.requests.total} answers in ${result.duration} s, p50 ${result.latency.p50} ms, p99 ${result.latency.p99} ms`,
  );
  const { errors, timeouts, non2xx } = result;
  if (errors + timeouts + non2xx + refused > 0)
    problems.push(
      `${errors} broke off, ${timeouts} timed out, ${non2xx} were errors, ${refused} refused`,
    );
  const { flat, before, after } = judgeMemory(memory);
  console.log(`memory: ${mb(before)} MB early, ${mb(after)} MB late (resident)`);
  if (!flat) problems.push(`memory grew from ${mb(before)} to ${mb(after)} MB`);
}

async function timed(
  what: string,
  ask: (i: number) => Promise<unknown>,
  count = TIMED,
): Promise<void> {
  const times: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const begun = performance.now();
    await ask(i);
    times.push(performance.now() - begun);
  }
  times.sort((a, b) => a - b);
  const at = (share: number) => (times[Math.floor(count * share)] ?? 0).toFixed(1);
  console.log(`${what}: p50 ${at(0.5)} ms, p95 ${at(0.95)} ms`);
}

/** Resident bytes of a process. */
function residentOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}
