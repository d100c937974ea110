import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { parseJson } from '../../../src/archive/format.ts';
import { ensureBucket, s3Store } from '../../../src/copies/s3-store.ts';
import type { Registry } from '../../../src/fleet/postgres.ts';
import { jsonLines, program } from '../../cli/child.ts';
import { type Ran, ran } from '../../cli/surface.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { type Servers, signal } from './nodes.ts';

const line = z.looseObject({ msg: z.string() });
type Line = z.output<typeof line>;

/** Proxies by which a node reaches both servers. */
export interface Through {
  readonly sql: { readonly folder: string };
  readonly http: { readonly port: number };
}

export interface NodeOptions {
  /** A node of the same fleet; a new fleet, if undefined. */
  readonly first?: FleetNode;
  readonly through?: Through;
  /** Another database than that of the first node. */
  readonly database?: string;
  /** Fields of the configuration. */
  readonly settings?: object;
  /** Fields of `fleet` in it. */
  readonly fleet?: object;
}

const FAST = {
  rateLimit: { requestsPerMinute: 1_000_000, concurrency: 4 },
  schedule: { sync: '* * * * * *', sweep: '*/2 * * * * *', jitterSeconds: 0 },
  minFreeBytes: 0,
};
let buckets = 0;

/** A folder with the configuration of a node, and a fleet of its own unless another node has made one. */
export class FleetNode {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'node-'));
  readonly keyFile = path.join(this.folder, 'keys');
  readonly #workers: RunningWorker[] = [];

  private constructor(
    readonly name: string,
    readonly servers: Servers,
    readonly database: string,
    readonly bucket: string,
    /** Past any proxies. */
    readonly registry: Registry,
    private readonly options: NodeOptions,
  ) {}

  static async make(servers: Servers, name: string, options: NodeOptions = {}): Promise<FleetNode> {
    const { first } = options;
    if (first === undefined) buckets += 1;
    const bucket = first?.bucket ?? `nodes-${buckets}`;
    const database = options.database ?? first?.database ?? (await servers.postgres.create());
    const registry = first?.registry ?? (await servers.postgres.open(database));
    if (first === undefined) await ensureBucket(targetAt(servers.radosgw, bucket), signal);
    const node = new FleetNode(name, servers, database, bucket, registry, options);
    node.configure();
    if (first === undefined) await node.json(['init']);
    else copyFileSync(first.keyFile, node.keyFile);
    return node;
  }

  get env(): Record<string, string> {
    const { accessKeyId, secretAccessKey } = this.servers.radosgw;
    return {
      HOME: this.folder,
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    };
  }

  get cache(): string {
    return path.join(this.folder, 'cache');
  }

  /** The bucket, past any proxies. */
  store() {
    return s3Store(targetAt(this.servers.radosgw, this.bucket));
  }

  /** Writes the configuration, with other fields. */
  configure(settings: object = {}, fleet: object = {}): void {
    const { through } = this.options;
    const port = through?.http.port ?? this.servers.radosgw.port;
    const socket = through?.sql.folder ?? this.servers.postgres.socketFolder;
    const content = {
      ...FAST,
      ...this.options.settings,
      ...settings,
      fleet: {
        registry: `postgresql:///${this.database}?host=${socket}&user=fleet`,
        store: { bucket: this.bucket, endpoint: `http://127.0.0.1:${port}` },
        keyFile: 'keys',
        node: this.name,
        ...this.options.fleet,
        ...fleet,
      },
    };
    writeFileSync(path.join(this.folder, 'config.json'), JSON.stringify(content), { mode: 0o600 });
  }

  /** Runs `mailkeep fleet …` in the folder. */
  run(args: readonly string[], options: { readonly stdin?: string } = {}): Promise<Ran> {
    return this.command(['fleet', ...args], options);
  }

  /** Runs `mailkeep …` in the folder. */
  command(args: readonly string[], { stdin = '' } = {}): Promise<Ran> {
    return ran(args, {
      cwd: this.folder,
      env: this.env,
      stdin: () => Readable.from([stdin]),
      now: Date.now,
    });
  }

  /** The values that a command prints with `--json`; it has to end with that code. */
  async json(args: readonly string[], { code = 0, stdin = '' } = {}): Promise<unknown[]> {
    const ended = await this.run([...args, '--json'], { stdin });
    if (ended.code !== code) throw new Error(`ended with ${ended.code}: ${ended.stderr}`);
    return jsonLines(ended.stdout);
  }

  /** Adds an account of a mail service. */
  async add(name: string, settings: object, { tenant = 'default' } = {}): Promise<void> {
    const stdin = JSON.stringify(settings);
    await this.json(['account', 'add', name, '--settings', '-', '--tenant', tenant], { stdin });
  }

  /** Starts `mailkeep fleet worker`. @param limits such as `ulimit -n 256` for its shell */
  start(file = program, limits?: string): RunningWorker {
    const worker = new RunningWorker(this, file, limits);
    this.#workers.push(worker);
    return worker;
  }

  /** Kills what runs, and removes the folder. */
  async remove(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.end('SIGKILL')));
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20 });
  }
}

/** `mailkeep fleet worker` with its daemons, and the lines of their logs as they come. */
export class RunningWorker {
  readonly lines: Line[] = [];
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  readonly #news = new EventEmitter().setMaxListeners(0);
  stderr = '';

  constructor(node: FleetNode, file: string, limits: string | undefined) {
    const args = [file, 'fleet', 'worker'];
    const [command, ...words] =
      limits === undefined
        ? [process.execPath, ...args]
        : ['sh', '-c', `${limits} && exec "$0" "$@"`, process.execPath, ...args];
    const child = spawn(command ?? '', words, {
      cwd: node.folder,
      env: { PATH: process.env.PATH ?? '', ...node.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    // Its daemons have its output as well, and end after it.
    this.#closed = once(child, 'close');
    createInterface({ input: child.stdout }).on('line', (said) => {
      const parsed = line.safeParse(parseJson(said)).data;
      if (parsed !== undefined) this.lines.push(parsed);
      this.#news.emit('line');
    });
    child.stderr.on('data', (said) => {
      this.stderr += String(said);
    });
    child.on('close', () => this.#news.emit('line'));
    child.on('exit', () => this.#news.emit('line'));
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves once so many lines say this, with these facts. */
  async said(
    msg: string,
    facts: Readonly<Record<string, unknown>> = {},
    times = 1,
  ): Promise<readonly Line[]> {
    const isMeant = (one: Line) =>
      one.msg === msg && Object.entries(facts).every(([name, value]) => one[name] === value);
    for (;;) {
      const found = this.lines.filter(isMeant);
      if (found.length >= times) return found;
      if (this.hasEnded) throw new Error(`ended: ${this.story}`);
      await this.news();
    }
  }

  get story(): string {
    return `${this.stderr}${this.lines
      .slice(-60)
      .map((one) => `\n${JSON.stringify(one)}`)
      .join('')}`;
  }

  /** Resolves with the next line, or the end; at once, if it has ended. */
  async news(): Promise<void> {
    if (!this.hasEnded) await once(this.#news, 'line');
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves once it and its daemons have ended. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    this.#child.kill(signal);
    await this.#closed;
    return this.#child.exitCode;
  }
}
