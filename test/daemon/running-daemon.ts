import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { rmSync } from 'node:fs';
import { request } from 'node:http';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { json, text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { z } from 'zod';
import type { ConfigInput } from '../../src/core/config-schema.ts';
import { findControlSocket } from '../../src/daemon/control-path.ts';
import { daemonStatus } from '../../src/daemon/ports.ts';
import { deliver } from '../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { program, type Workplace, workplace } from '../cli/child.ts';

const SHIFTING_CLOCK = new URL('shifting-clock.mjs', import.meta.url).href;

const line = z.looseObject({ level: z.string(), msg: z.string() });
export type LogLine = z.output<typeof line>;

/** A cron expression that does not come during a test. */
export const NEVER = '0 0 29 2 *';
export const EVERY_SECOND = '* * * * * *';

/** A folder with a configuration by which nothing happens but the sync at the start; `change` alters it. */
export function daemonWorkplace(
  sandbox: Pick<Sandbox, 'mailboxUrl' | 'tokens'>,
  change: (config: ConfigInput) => ConfigInput = (config) => config,
): Workplace {
  return workplace(sandbox, (config) =>
    change({
      ...config,
      schedule: { sync: NEVER, sweep: NEVER, verify: NEVER },
      log: { level: 'debug' },
    }),
  );
}

/** The built program as a daemon, and the lines of its log as they come. */
export class RunningDaemon {
  readonly lines: LogLine[] = [];
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly stderr: string }>;
  readonly #place: Workplace;
  readonly #news = new EventEmitter();

  /** @param under a command that runs the daemon for us, in the same process */
  constructor(place: Workplace, under: readonly string[] = []) {
    this.#place = place;
    this.#news.setMaxListeners(0);
    const node = [process.execPath, '--import', SHIFTING_CLOCK, program, 'daemon'];
    const [command = '', ...rest] = [...under, ...node, '--config', place.config];
    const child = spawn(command, rest, {
      cwd: place.folder,
      env: { PATH: process.env.PATH ?? '', HOME: place.folder, TMPDIR: path.dirname(place.folder) },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    this.child = child;
    if (child.stdout === null || child.stderr === null) throw new Error('a daemon without output');
    const { stderr } = child;
    createInterface({ input: child.stdout }).on('line', (said) => {
      this.lines.push(line.parse(JSON.parse(said)));
      this.#news.emit('line');
    });
    this.ended = Promise.all([text(stderr), once(child, 'close')]).then(([said]) => {
      this.#news.emit('line');
      return { code: child.exitCode, stderr: said };
    });
  }

  /** The first line that fits, from the `from`-th on; fails when the process ends without one. */
  async line(fits: (line: LogLine) => boolean, from = 0): Promise<LogLine> {
    for (;;) {
      const found = this.lines.slice(from).find(fits);
      if (found !== undefined) return found;
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        const { stderr } = await this.ended;
        throw new Error(`the daemon ended:\n${JSON.stringify(this.lines.slice(-5))}\n${stderr}`);
      }
      await once(this.#news, 'line');
    }
  }

  /** Resolves when so many sources have been fetched. */
  async sources(count: number): Promise<void> {
    const fetched = (): number =>
      this.lines.filter(({ operation }) => operation === 'getMessageSource').length;
    while (fetched() < count) {
      await this.line((line) => line.operation === 'getMessageSource', this.lines.length);
    }
  }

  message(msg: string, from = 0): Promise<LogLine> {
    return this.line((said) => said.msg === msg, from);
  }

  /** A run that is over, by what it was for. */
  run(kind: string, from = 0): Promise<LogLine> {
    return this.line((said) => said.msg.startsWith('run finished') && said.kind === kind, from);
  }

  async status(): Promise<z.output<typeof daemonStatus>> {
    return daemonStatus.parse(await this.#ask('GET', '/status'));
  }

  async hint(hint: object): Promise<void> {
    await this.#ask('POST', '/hint', hint);
  }

  /** Advances its wall clock by so much at once, as if the machine had slept. */
  sleep(ms: number): void {
    this.child.send({ sleptMs: ms });
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  async end(): Promise<number | null> {
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    return (await this.ended).code;
  }

  async #ask(method: string, url: string, body?: object): Promise<unknown> {
    const socketPath = findControlSocket(this.#place.data);
    if (socketPath === null) throw new Error('there is no control socket');
    const asked = request({ socketPath, method, path: url, agent: false });
    asked.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = await once(asked, 'response');
    return method === 'GET' ? json(response) : text(response);
  }
}

/** A sandbox and a workplace for each test, or shared by the tests of a file, and daemons that end with it. */
export class DaemonTests {
  readonly #running: RunningDaemon[] = [];
  #sandbox: Sandbox | undefined;
  #place: Workplace | undefined;

  constructor(options: Parameters<typeof startSandbox>[0], shared = false) {
    const [before, after] = shared ? [beforeAll, afterAll] : [beforeEach, afterEach];
    before(async () => {
      this.#sandbox = await startSandbox(options);
      this.#place = undefined;
    });
    after(async () => {
      for (const daemon of this.#running.splice(0)) {
        daemon.child.kill('SIGKILL');
        await daemon.ended;
      }
      await this.#sandbox?.close();
      rmSync(this.place.folder, { recursive: true, force: true });
    });
  }

  get sandbox(): Sandbox {
    if (this.#sandbox === undefined) throw new Error('no test is running');
    return this.#sandbox;
  }

  set sandbox(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  get place(): Workplace {
    this.#place ??= daemonWorkplace(this.sandbox);
    return this.#place;
  }

  configure(change: (config: ConfigInput) => ConfigInput): void {
    this.#place = daemonWorkplace(this.sandbox, change);
  }

  daemon(place = this.place, under?: readonly string[]): RunningDaemon {
    const started = new RunningDaemon(place, under);
    this.#running.push(started);
    return started;
  }

  /** Puts a message into INBOX of the first mailbox. Returns its uid. */
  arrive(subject: string): number {
    const { service } = this.sandbox;
    const [mailbox] = service.store.mailboxes.values();
    if (mailbox === undefined) throw new Error('no mailbox');
    const source = `From: a@example.org\r\nSubject: ${subject}\r\nMessage-ID: <${subject}@x>\r\n\r\nHello.\r\n`;
    const inbox = service.store.folderFor(mailbox, 'INBOX');
    return deliver(service, mailbox, inbox, Buffer.from(source));
  }
}
