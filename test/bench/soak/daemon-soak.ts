import { type ChildProcess, spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import packageJson from '../../../package.json' with { type: 'json' };
import { openLogReader } from '../../../src/archive/log-reader.ts';
import { openCatalogReader } from '../../../src/catalog/catalog.ts';
import { askSync } from '../../../src/daemon/control.ts';
import { findControlSocket } from '../../../src/daemon/control-path.ts';
import { type Random, randomFrom } from '../../../src/sandbox/generated-mail.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { program } from '../../cli/child.ts';
import { Actor } from './origin-actor.ts';

export interface SoakFigures {
  readonly problems: string[];
  readonly changes: number;
  readonly faults: number;
  readonly requests: number;
  readonly runs: number;
  readonly failedRuns: number;
  /** Times that the account waited because of a refused token or a lost network. */
  readonly stops: number;
  /** Bytes after collections, and resident, in the order taken. */
  readonly heap: number[];
  readonly rss: number[];
  /** Messages that were compared at the end. */
  readonly places: number;
}

const SAMPLES = 24;
const CHANGE_EVERY_MS = 100;
const FAULT_EVERY_MS = 4_000;
const HAND_EVERY_MS = 45_000;
const HANGUP_EVERY_MS = 150_000;
/** Passes at rest until the mirror has to be true: a folder goes when two listings agree. */
const PASSES_AT_REST = 4;

const memory = z.object({ heap: z.number(), rss: z.number() });
const line = z.looseObject({ level: z.string(), msg: z.string() });

/** Runs a daemon against a service that changes and fails all the time, brings both to rest and compares them. */
export async function soakDaemon(options: {
  readonly seconds: number;
  readonly mailboxes: number;
  readonly seed: number;
  readonly say: (line: string) => void;
}): Promise<SoakFigures> {
  const { seconds, seed } = options;
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-soak-daemon-'));
  const addresses = Array.from({ length: options.mailboxes }, (_, n) => `box${n}@example.org`);
  const sandbox = await startSandbox({
    seed,
    addresses,
    mail: { messages: 20 * addresses.length },
  });
  const soak = new Soak(sandbox, folder, randomFrom(seed, 'soak'));
  try {
    await soak.run(seconds * 1000, options.say);
    return await soak.judge();
  } finally {
    await soak.close();
    await sandbox.close();
    if (soak.problems.length === 0) rmSync(folder, { recursive: true, force: true });
    else options.say(`kept      ${folder}`);
  }
}

class Soak {
  readonly problems: string[] = [];
  readonly #sandbox: Sandbox;
  readonly #folder: string;
  readonly #data: string;
  readonly #random: Random;
  readonly #actor: Actor;
  readonly #child: ChildProcess;
  readonly #heap: number[] = [];
  readonly #rss: number[] = [];
  readonly #exited: Promise<unknown>;
  #runs = 0;
  #failedRuns = 0;
  #stops = 0;
  #faults = 0;

  constructor(sandbox: Sandbox, folder: string, random: Random) {
    this.#sandbox = sandbox;
    this.#folder = folder;
    this.#data = path.join(folder, 'data');
    this.#random = random;
    this.#actor = new Actor(sandbox, random);
    const config = path.join(folder, 'config.json');
    writeFileSync(path.join(folder, 'token'), sandbox.tokens.mailbox, { mode: 0o600 });
    writeFileSync(
      config,
      JSON.stringify({
        accounts: [{ name: 'soak', baseUrl: sandbox.mailboxUrl, token: { file: './token' } }],
        rateLimit: { requestsPerMinute: 1_000_000, concurrency: 8 },
        schedule: { sync: '*/5 * * * * *', sweep: '30 */2 * * * *' },
        minFreeBytes: 0,
      }),
      { mode: 0o600 },
    );
    const probe = fileURLToPath(new URL('memory-probe.mjs', import.meta.url));
    const node = ['--expose-gc', '--import', probe, program];
    this.#child = spawn(process.execPath, [...node, 'daemon', '--config', config], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    this.#exited = once(this.#child, 'exit');
    if (this.#child.stdout === null) throw new Error('no log');
    this.#child.stdout.pipe(createWriteStream(path.join(folder, 'daemon.log')));
    createInterface({ input: this.#child.stdout }).on('line', (text) => this.#read(text));
  }

  async run(ms: number, say: (line: string) => void): Promise<void> {
    await this.#sync(false);
    const until = performance.now() + ms;
    const due = { fault: 0, hand: 0, hangup: HANGUP_EVERY_MS, sample: 0 };
    const from = performance.now();
    let hand: Promise<void> = Promise.resolve();
    while (performance.now() < until && this.#child.exitCode === null) {
      const at = performance.now() - from;
      await this.#hint(this.#actor.change());
      if (at >= due.fault) {
        due.fault = at + FAULT_EVERY_MS;
        this.#fault();
      }
      if (at >= due.hand) {
        due.hand = at + HAND_EVERY_MS;
        hand = hand.then(() => this.#sync(this.#random.chance(0.2)));
      }
      if (at >= due.hangup) {
        due.hangup = at + HANGUP_EVERY_MS;
        this.#child.kill('SIGHUP');
      }
      if (at >= due.sample) {
        due.sample += ms / SAMPLES;
        const { heap, rss } = await this.#sample();
        say(
          `${Math.round(at / 1000)} s: ${(heap / 1e6).toFixed(1)} MB, RSS ${(rss / 1e6).toFixed(1)} MB, ${this.#actor.changes} changes, ${this.#runs} runs`,
        );
      }
      await delay(CHANGE_EVERY_MS);
    }
    this.#sandbox.clearFaults();
    this.#touchToken();
    await hand;
  }

  async judge(): Promise<SoakFigures> {
    let { places, differences } = { places: 0, differences: ['nothing was compared'] };
    for (let pass = 0; pass < PASSES_AT_REST && differences.length > 0; pass += 1) {
      await this.#sync(true);
      ({ places, differences } = this.#compare());
    }
    this.problems.push(...differences.slice(0, 10));
    this.#child.kill('SIGTERM');
    await this.#exited;
    if (this.#child.exitCode !== 0) {
      this.problems.push(`the daemon ended with ${this.#child.exitCode ?? this.#child.signalCode}`);
    }
    return {
      problems: this.problems,
      changes: this.#actor.changes,
      faults: this.#faults,
      requests: this.#sandbox.requests().total,
      runs: this.#runs,
      failedRuns: this.#failedRuns,
      stops: this.#stops,
      heap: this.#heap,
      rss: this.#rss,
      places,
    };
  }

  async close(): Promise<void> {
    if (this.#child.exitCode === null) this.#child.kill('SIGKILL');
    await this.#exited;
  }

  #read(text: string): void {
    const said = line.parse(JSON.parse(text));
    if (said.level === 'fatal') this.problems.push(text);
    if (said.level === 'error' && said.state === undefined) this.problems.push(text);
    if (said.msg.startsWith('run finished')) this.#runs += 1;
    if (said.msg === 'run finished with failures') this.#failedRuns += 1;
    if (said.msg.endsWith('the account waits')) this.#stops += 1;
  }

  /** Most arrivals are announced, as a webhook would; some are left for the schedule. */
  async #hint(arrived: { readonly mailbox: string; readonly uid: number } | null): Promise<void> {
    const socketPath = findControlSocket(this.#data);
    if (arrived === null || socketPath === null || this.#random.chance(0.3)) return;
    const { request } = await import('node:http');
    const asked = request({ socketPath, method: 'POST', path: '/hint', agent: false });
    asked.end(JSON.stringify({ resourceId: arrived.mailbox, uid: arrived.uid }));
    const [response] = await once(asked, 'response');
    response.resume();
    await once(response, 'end');
  }

  #fault(): void {
    this.#faults += 1;
    this.#sandbox.clearFaults();
    const random = this.#random;
    const times = 1 + random.below(6);
    const sources = { operation: 'getMessageSource', times } as const;
    const kind = random.below(11);
    if (kind === 0) this.#sandbox.fault({ kind: 'status', status: 500, times });
    // Seldom: every refusal halves what is asked for, and ten minutes without one win it back. More of them would
    // leave a daemon at rest, which proves nothing about one at work.
    if (kind === 1 && random.chance(0.05))
      this.#sandbox.fault({ kind: 'status', status: 429, retryAfter: 1, times: 1 });
    if (kind === 2) this.#sandbox.fault({ kind: 'status', status: 503, times: 30 });
    if (kind === 3) this.#sandbox.fault({ kind: 'close', times: 40 });
    if (kind === 4) this.#sandbox.fault({ kind: 'cut', mode: 'declared', ...sources });
    if (kind === 5) this.#sandbox.fault({ kind: 'cut', mode: 'silent', ...sources });
    if (kind === 6) this.#sandbox.fault({ kind: 'broken-json', operation: 'listMessages', times });
    if (kind === 7) this.#sandbox.fault({ kind: 'html-page', times });
    if (kind === 8) this.#sandbox.fault({ kind: 'slow', overMs: 1_500, times });
    if (kind === 9)
      this.#sandbox.fault({ kind: 'wrong-total', operation: 'listMessages', by: -1, times });
    if (kind === 10) {
      this.#sandbox.fault({ kind: 'status', status: 401, times: 3 });
      setTimeout(() => this.#touchToken(), 2_500).unref();
    }
  }

  /** A refused account looks at its token's file: one that changes is tried at once. */
  #touchToken(): void {
    const now = new Date();
    utimesSync(path.join(this.#folder, 'token'), now, now);
  }

  async #sync(full: boolean): Promise<void> {
    for (;;) {
      const socket = findControlSocket(this.#data);
      const message = { mailboxes: [], folders: [], full, acceptEndings: full, dryRun: false };
      const options = {
        version: packageJson.version,
        progress: () => {},
        signal: new AbortController().signal,
      };
      const done = socket === null ? null : await askSync(socket, message, options);
      if (done !== null || this.#child.exitCode !== null) return;
      await delay(50);
    }
  }

  async #sample(): Promise<z.output<typeof memory>> {
    this.#child.send('memory');
    const [answer]: unknown[] = await Promise.race([
      once(this.#child, 'message'),
      this.#exited.then(() => []),
    ]);
    const { heap, rss } = memory.parse(answer);
    this.#heap.push(heap);
    this.#rss.push(rss);
    return { heap, rss };
  }

  #compare(): { readonly places: number; readonly differences: string[] } {
    const catalog = openCatalogReader(this.#data);
    const reader = openLogReader({ dir: this.#data, locator: catalog.locator });
    const mirrored = new Map<string, string>();
    for (const { mailbox, folder, uid, id, flags } of catalog.list({})) {
      const bytes = id === null ? 'quarantined' : hash('sha256', reader.readMessage(id));
      mirrored.set(`${mailbox}/${folder}/${uid}`, [bytes, ...flags].join(' '));
    }
    reader.close();
    catalog.close();
    const there = this.#actor.everything();
    const differences = [
      ...[...there]
        .filter(([key, value]) => mirrored.get(key) !== value)
        .map(
          ([key, value]) =>
            `${key} is "${mirrored.get(key) ?? 'nothing'}" and should be "${value}"`,
        ),
      ...[...mirrored.keys()]
        .filter((key) => !there.has(key))
        .map((key) => `${key} is not there any more`),
    ];
    return { places: there.size, differences };
  }
}
