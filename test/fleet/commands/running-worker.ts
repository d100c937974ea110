import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import { program } from '../../cli/child.ts';
import type { Servers } from '../servers/scene.ts';
import { Place } from './place.ts';

const line = z.looseObject({ msg: z.string() });
export type Line = z.output<typeof line>;

/** `mailkeep fleet worker` as a process of its own, and the lines of its log as they come. */
export class RunningWorker {
  readonly lines: Line[] = [];
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #news = new EventEmitter().setMaxListeners(0);
  stderr = '';

  /** @param file the program: the built one, unless it is another build of it */
  constructor(
    readonly place: Place,
    file = program,
  ) {
    const child = spawn(process.execPath, [file, 'fleet', 'worker'], {
      cwd: place.folder,
      env: { PATH: process.env.PATH ?? '', ...place.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#closed = once(child, 'close');
    createInterface({ input: child.stdout }).on('line', (said) => {
      this.lines.push(line.parse(JSON.parse(said)));
      this.#news.emit('line');
    });
    child.stderr.on('data', (said) => {
      this.stderr += String(said);
    });
    child.on('close', () => this.#news.emit('line'));
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves once so many lines say this. */
  said(msg: string, times = 1): Promise<readonly Line[]> {
    return this.saidOf(msg, {}, times);
  }

  /** The same, of lines with these facts. */
  async saidOf(
    msg: string,
    facts: Readonly<Record<string, unknown>>,
    times: number,
  ): Promise<readonly Line[]> {
    const isMeant = (one: Line) =>
      one.msg === msg && Object.entries(facts).every(([name, value]) => one[name] === value);
    for (;;) {
      const found = this.lines.filter(isMeant);
      if (found.length >= times) return found;
      if (this.hasEnded) {
        throw new Error(
          `ended: ${this.stderr}${this.lines.map((one) => `\n${JSON.stringify(one)}`)}`,
        );
      }
      await once(this.#news, 'line');
    }
  }

  /** Resolves with the next line, or the end; at once, if it has ended. */
  async news(): Promise<void> {
    if (!this.hasEnded) await once(this.#news, 'line');
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.#child.kill(signal);
    await this.#closed;
    return this.#child.exitCode;
  }
}

/** Returns an address of this machine at which nobody listens. */
export async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

let fleets = 0;

export interface NodeOptions {
  readonly first?: Place;
  /** Fields of its configuration. */
  readonly settings?: object;
  /** Fields of `fleet` in it. */
  readonly fleet?: object;
  /** Proxies by which the node reaches both servers. */
  readonly through?: {
    readonly sql: { readonly folder: string };
    readonly http: { readonly port: number };
  };
}

/**
 * The folder of a node of the fleet that `first` began, or of the first one.
 */
export async function nodeOf(
  { gateway: server, postgres }: Servers,
  name: string,
  options: NodeOptions = {},
): Promise<Place> {
  const { first, settings = {}, fleet = {}, through } = options;
  if (first === undefined) fleets += 1;
  const place = await Place.make(postgres, {
    ...{ empty: true, bucket: 'fleet', server, prefix: first?.prefix ?? `workers-${fleets}` },
    ...(first === undefined ? {} : { database: first.database }),
  });
  const own = {
    rateLimit: { requestsPerMinute: 1_000_000, concurrency: 4 },
    minFreeBytes: 0,
    log: { level: 'info' },
    ...settings,
  };
  const reached = through === undefined ? {} : place.reachedThrough(through);
  place.configure({ node: name, ...reached, ...fleet }, own);
  if (first !== undefined) place.copyKeys(first);
  await place.json(['init']);
  return place;
}

/** Adds one account for each mailbox of a sandbox; returns their settings by their names. */
export async function addAccounts(
  place: Place,
  sandbox: Sandbox,
): Promise<ReadonlyMap<string, object>> {
  writeFileSync(path.join(place.folder, 'token'), sandbox.tokens.mailbox, { mode: 0o600 });
  const accounts = new Map<string, object>();
  for (const { address } of sandbox.service.store.mailboxes.values()) {
    const name = `account-${accounts.size}`;
    const settings = { baseUrl: sandbox.mailboxUrl, mailboxes: { include: [address] } };
    writeFileSync(path.join(place.folder, 'account.json'), JSON.stringify(settings));
    const own = ['--settings', 'account.json', '--token-file', 'token'];
    await place.json(['account', 'add', name, ...own]);
    accounts.set(name, settings);
  }
  return accounts;
}

const listed = z.array(
  z.looseObject({
    ...{ account: z.string(), archive: z.number(), commits: z.number() },
    node: z.nullable(z.string()),
  }),
);

/** What `mailkeep fleet account list` prints. */
export async function accountsOf(place: Place): Promise<z.output<typeof listed>> {
  return listed.parse(await place.json(['account', 'list']));
}
