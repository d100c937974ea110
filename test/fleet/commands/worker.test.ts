import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, program } from '../../cli/child.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import { Place } from './place.ts';

const skipped = withoutServers();
const line = z.looseObject({ msg: z.string() });
type Line = z.output<typeof line>;

let servers: Servers;
let sandbox: Sandbox;
const places: Place[] = [];
const running: RunningWorker[] = [];

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
}, 120_000);
beforeEach(async () => {
  if (!skipped) sandbox = await startSandbox({ seed: 1 });
});
afterEach(async () => {
  for (const worker of running.splice(0)) await worker.end('SIGKILL');
  for (const place of places.splice(0)) place.remove();
  await sandbox?.close();
});
afterAll(() => servers?.stop());

/** `mailkeep fleet worker` as a process of its own, and the lines of its log as they come. */
class RunningWorker {
  readonly lines: Line[] = [];
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #news = new EventEmitter();
  stderr = '';

  constructor(readonly place: Place) {
    const child = spawn(process.execPath, [program, 'fleet', 'worker'], {
      cwd: place.folder,
      env: { PATH: process.env.PATH ?? '', ...place.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#closed = once(child, 'close');
    running.push(this);
    createInterface({ input: child.stdout }).on('line', (said) => {
      this.lines.push(line.parse(JSON.parse(said)));
      this.#news.emit('line');
    });
    child.stderr.on('data', (said) => {
      this.stderr += String(said);
    });
    child.on('close', () => this.#news.emit('line'));
  }

  /** Resolves once so many lines say this. */
  async said(msg: string, times = 1): Promise<readonly Line[]> {
    for (;;) {
      const found = this.lines.filter((one) => one.msg === msg);
      if (found.length >= times) return found;
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
        throw new Error(
          `ended: ${this.stderr}${this.lines.map((one) => `\n${JSON.stringify(one)}`)}`,
        );
      }
      await once(this.#news, 'line');
    }
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.#child.kill(signal);
    await this.#closed;
    return this.#child.exitCode;
  }
}

/** The folder of another node of the fleet that `first` began. */
async function nodeOf(name: string, first?: Place): Promise<Place> {
  const { gateway: server, postgres } = servers;
  const place = await Place.make(postgres, {
    ...{
      empty: true,
      bucket: 'fleet',
      server,
      prefix: first?.prefix ?? `workers-${places.length}`,
    },
    ...(first === undefined ? {} : { database: first.database }),
  });
  places.push(place);
  const settings = {
    rateLimit: { requestsPerMinute: 1_000_000, concurrency: 4 },
    minFreeBytes: 0,
    log: { level: 'info' },
  };
  place.configure({ node: name }, settings);
  if (first !== undefined) place.copyKeys(first);
  await place.json(['init']);
  return place;
}

const listed = z.array(
  z.looseObject({
    account: z.string(),
    archive: z.number(),
    commits: z.number(),
    node: z.nullable(z.string()),
  }),
);

/** One account for each mailbox of the sandbox. */
async function addAccounts(place: Place): Promise<string[]> {
  const mailboxes = [...sandbox.service.store.mailboxes.values()];
  writeFileSync(path.join(place.folder, 'token'), sandbox.tokens.mailbox, { mode: 0o600 });
  const names: string[] = [];
  for (const [at, { address }] of mailboxes.entries()) {
    const settings = { baseUrl: sandbox.mailboxUrl, mailboxes: { include: [address] } };
    writeFileSync(path.join(place.folder, 'account.json'), JSON.stringify(settings));
    const name = `account-${at}`;
    await place.json([
      'account',
      'add',
      name,
      '--settings',
      'account.json',
      '--token-file',
      'token',
    ]);
    names.push(name);
  }
  return names;
}

describe.skipIf(skipped)('workers of a fleet', () => {
  test('mirror accounts, give them back, and take over those of a worker that was killed', async () => {
    const one = await nodeOf('one');
    const names = await addAccounts(one);
    const first = new RunningWorker(one);
    await first.said('archive opened', names.length);
    await first.said('run finished', names.length);
    const before = listed.parse(await one.json(['account', 'list']));
    expect(before.map(({ node, commits }) => [node, commits > 0])).toEqual(
      names.map(() => ['one', true]),
    );

    // Another node starts while the first one holds everything, and takes over when that is killed.
    const two = await nodeOf('two', one);
    const second = new RunningWorker(two);
    await second.said('session begun');
    await first.end('SIGKILL');
    await two.registry.statement(
      'let a lease run out',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = 'one'`,
    );
    await second.said('archive opened', names.length);
    await second.said('run finished', names.length);
    const after = listed.parse(await two.json(['account', 'list']));
    expect(after.map(({ node }) => node)).toEqual(names.map(() => 'two'));
    const isLost = ({ commits }: { commits: number }, at: number) =>
      commits < (before[at]?.commits ?? 0);
    expect(after.filter(isLost)).toEqual([]);

    expect(await second.end('SIGTERM')).toBe(0);
    const free = listed.parse(await two.json(['account', 'list']));
    expect(free.map(({ node }) => node)).toEqual(names.map(() => null));
    for (const { archive } of after) {
      const data = path.join(two.folder, 'cache', String(archive));
      const verified = await mailkeep(['verify', '--data', data]);
      expect([verified.stdout, verified.code]).toEqual([
        expect.stringContaining('as it was written'),
        0,
      ]);
    }
    expect(readdirSync(path.join(two.folder, 'cache')).length).toBe(names.length);
    expect(existsSync(path.join(one.folder, 'cache'))).toBe(true);
  }, 240_000);
});
