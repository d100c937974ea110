import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { makeMessageSet } from '../bench/message-set.ts';
import { type Sandbox, startSandbox } from '../bench/sandbox.ts';
import { queryText } from '../bench/search-terms.ts';
import { corpusStock, generatedStock } from '../bench/source-stock.ts';
import type { Workplace } from '../bench/workplace.ts';

const SEED = 1;
/** About how many messages the query of the small export finds. */
const EXPORTED = 500;
const LISTED = 1_000;

const factsSchema = z.object({
  messages: z.number(),
  origin: z.string(),
  searches: z.array(z.string()).min(1),
  ids: z.array(z.string()).min(1),
  exportQuery: z.string(),
  exported: z.number(),
});

/** What is in the archive, and what the commands are to find. */
export type ArchiveFacts = z.output<typeof factsSchema>;

/** An archive that mirrors a sandbox which is running. */
export interface ReliableArchive {
  readonly facts: ArchiveFacts;
  readonly data: string;
  readonly config: string;
  readonly sandbox: Sandbox;
}

const listedSchema = z.looseObject({ id: z.string(), date: z.string() });

/** Makes the archive in a folder, or opens the one that an earlier run left there, and starts its sandbox. */
export async function openArchive(
  work: Workplace,
  folder: string,
  program: string,
  messages: number,
): Promise<ReliableArchive> {
  const maildir = join(folder, 'maildir');
  const data = join(folder, 'archive');
  const config = join(folder, 'config.json');
  const factsFile = join(folder, 'facts.json');
  const known = existsSync(factsFile)
    ? factsSchema.parse(JSON.parse(readFileSync(factsFile, 'utf8')))
    : undefined;
  if (known !== undefined && known.messages !== messages)
    throw new RangeError(`${folder} holds ${known.messages} messages, not ${messages}`);
  const made = known === undefined ? makeMaildir(maildir, messages) : undefined;
  const sandbox = await startSandbox(work, program, maildir);
  writeFileSync(
    config,
    JSON.stringify({
      dataDir: data,
      accounts: [{ name: 'reliability', baseUrl: sandbox.url, token: sandbox.token }],
      rateLimit: { requestsPerMinute: 10_000_000, concurrency: 8 },
      minFreeBytes: 100_000_000,
    }),
    { mode: 0o600 },
  );
  const run = (...args: readonly string[]): string => mailkeep(folder, program, args);
  // The second pass finds nothing new, as every later one.
  run('sync', '--config', config, '--quiet');
  run('sync', '--config', config, '--quiet');
  if (known !== undefined) return { facts: known, data, config, sandbox };
  const places = run('list', '--data', data, '--json')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => listedSchema.parse(JSON.parse(line)));
  const exportQuery = daysOf(places.map(({ date }) => date));
  const facts: ArchiveFacts = {
    messages,
    origin: made?.origin ?? '',
    searches: made?.searches ?? [],
    ids: places.slice(0, LISTED).map(({ id }) => id),
    exportQuery,
    exported: Number(run('search', '--data', data, '--count', exportQuery).trim()),
  };
  writeFileSync(`${factsFile}.tmp`, JSON.stringify(facts));
  renameSync(`${factsFile}.tmp`, factsFile);
  return { facts, data, config, sandbox };
}

function makeMaildir(maildir: string, messages: number) {
  // What an interrupted run left is incomplete.
  rmSync(maildir, { recursive: true, force: true });
  const { MAILKEEP_CORPUS } = process.env;
  const stock =
    MAILKEEP_CORPUS === undefined ? generatedStock(messages, SEED) : corpusStock(MAILKEEP_CORPUS);
  const { terms, origin } = makeMessageSet(maildir, stock, messages, SEED);
  const searches = (['common', 'rare', 'phrase'] as const).map((term) => queryText(terms, term));
  return { origin, searches };
}

/** Returns a query for neighbouring days whose messages come nearest to the number that is exported. */
export function daysOf(received: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const time of received) {
    const day = time.slice(0, 10);
    counts.set(day, (counts.get(day) ?? 0) + 1);
  }
  const days = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  let best = { first: '', last: '', off: Number.POSITIVE_INFINITY };
  for (const [start, [first]] of days.entries()) {
    let sum = 0;
    for (const [last, count] of days.slice(start)) {
      sum += count;
      if (Math.abs(sum - EXPORTED) < best.off)
        best = { first, last, off: Math.abs(sum - EXPORTED) };
      if (sum >= EXPORTED) break;
    }
  }
  const dayAfter = new Date(Date.parse(best.last) + 86_400_000).toISOString().slice(0, 10);
  return `after:${best.first} before:${dayAfter}`;
}

function mailkeep(cwd: string, program: string, args: readonly string[]): string {
  const env = { PATH: process.env.PATH ?? '', HOME: cwd, XDG_CONFIG_HOME: cwd };
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd,
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  });
  if (status !== 0)
    throw new Error(`mailkeep ${args.join(' ')} ended with ${status ?? signal}: ${stderr}`);
  return stdout;
}
