import { chmodSync, mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { counted } from '../../core/text.ts';
import { Children, findStablePort } from '../../sandbox/children.ts';
import {
  checkPrograms,
  postgresOwner,
  programPath,
  startPostgres,
  startRadosGateway,
} from '../../sandbox/demo-servers.ts';
import { DemoWorker } from '../../sandbox/demo-worker.ts';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import type { CommandContext } from '../context.ts';
import { withFleet } from '../open-fleet.ts';
import { addAccountsEvenly, DEFAULT_TENANT, initFleet, showStatus } from './fleet-actions.ts';

export interface DemoLine {
  readonly mailboxes: number;
  readonly messages: number;
  readonly nodes: number;
  readonly keep?: boolean;
}

const BUCKET = 'demo';
/** Between two looks at how far the workers are, in milliseconds. */
const LOOK_MS = 200;
/** Lines of progress. */
const STEPS = 5;

/**
 * `mailkeep fleet demo`: a fleet with everything it needs, on this machine and for as long as the command runs.
 *
 * @throws demo-programs-missing and the other errors of the demo; the signal's reason
 */
export async function demoCommand(context: CommandContext, line: DemoLine): Promise<ExitCode> {
  const { environment, signal } = context;
  const folders = programPath(environment.env.PATH);
  checkPrograms(folders);
  // Short: there are sockets in it.
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'mkd-')));
  const demo = new Demo(context, line, folder, folders);
  try {
    return await demo.run();
  } catch (error) {
    // What ended because everything was ended is no failure of its own.
    signal.throwIfAborted();
    throw error;
  } finally {
    await demo.close();
  }
}

class Demo {
  readonly #servers: readonly [postgres: Children, gateway: Children];
  readonly #all: Children;
  readonly #workers = new Map<string, DemoWorker>();
  readonly #env: Record<string, string | undefined>;
  #sandbox: Sandbox | undefined;

  constructor(
    private readonly context: CommandContext,
    private readonly line: DemoLine,
    private readonly folder: string,
    folders: string,
  ) {
    const { signal } = context;
    const env = { PATH: folders, LC_ALL: 'C.UTF-8' };
    const made = (name: string, owner: object = {}): Children => {
      mkdirSync(path.join(folder, name));
      return new Children(path.join(folder, name), { ...owner, env, signal });
    };
    const owner = process.getuid?.() === 0 ? postgresOwner() : undefined;
    // Its own folder is in this one.
    if (owner !== undefined) chmodSync(folder, 0o711);
    this.#servers = [made('pg', owner), made('s3')];
    this.#all = new Children(folder, { signal });
    this.#env = { PATH: folders, HOME: folder };
    signal.addEventListener('abort', () => void this.#end());
  }

  async run(): Promise<ExitCode> {
    const { context, line } = this;
    const { output, signal } = context;
    await this.#startServers();
    await this.#makeFleet();
    await this.#mirror();
    await this.#command('status', showStatus);
    await this.#takeOver();
    await this.#command('status', showStatus);
    if (line.keep === true) {
      await output.object({ event: 'kept', folder: this.folder }, () => this.#explained());
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        else signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    await output.object({ event: 'removed', folder: this.folder }, () => 'Everything was removed.');
    return EXIT.done;
  }

  /** Ends whatever runs, and removes the folder. */
  async close(): Promise<void> {
    await this.#end();
    await this.#sandbox?.close();
    await this.#all.stop();
  }

  async #end(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.kill()));
    await Promise.all(this.#servers.map((server) => server.stop()));
  }

  async #startServers(): Promise<void> {
    const { context, line, folder } = this;
    const { output, notices } = context;
    notices.say(`Starting PostgreSQL, RadosGW and a mail service with mail, in ${folder} …`);
    const [postgresFolder, gatewayFolder] = this.#servers;
    const owner = process.getuid?.() === 0 ? postgresOwner() : undefined;
    const [postgres, gateway] = await Promise.all([
      startPostgres(postgresFolder, owner),
      startRadosGateway(gatewayFolder),
    ]);
    const { mailboxes, messages } = line;
    const addresses = Array.from({ length: mailboxes }, (_, i) => `${nameOf(i)}@example.org`);
    const sandbox = await startSandbox({
      addresses,
      mail: { messages: mailboxes * messages },
      report: (error) => notices.warn(`the mail service failed to answer: ${String(error)}`),
    });
    this.#sandbox = sandbox;
    this.#env.AWS_ACCESS_KEY_ID = gateway.accessKeyId;
    this.#env.AWS_SECRET_ACCESS_KEY = gateway.secretAccessKey;
    for (const node of this.#nodes) {
      mkdirSync(path.join(folder, node));
      const config = {
        fleet: {
          registry: postgres.address,
          store: { bucket: BUCKET, endpoint: `http://127.0.0.1:${gateway.port}` },
          keyFile: path.join(folder, 'fleet.keys'),
          node,
          address: `127.0.0.1:${await findStablePort()}`,
          // One node takes all that the other had.
          capacity: mailboxes,
        },
        // The mail service of the demo has no limit.
        rateLimit: { requestsPerMinute: 1_000_000, concurrency: 4 },
        log: { level: 'info' },
      };
      const file = path.join(folder, node, 'config.json');
      writeFileSync(file, JSON.stringify(config, null, 2), { mode: 0o600 });
    }
    await output.object({ event: 'servers-started', folder, mailboxes }, () =>
      [
        `${line.nodes} nodes have a PostgreSQL server, an S3 server and a mail service with`,
        `${counted(mailboxes, 'mailbox', 'mailboxes')} of ${messages} messages on average. The service has no limit of requests.`,
      ].join('\n'),
    );
  }

  async #makeFleet(): Promise<void> {
    const { output } = this.context;
    await this.#command('init --create-bucket', (at) => initFleet(at, { createBucket: true }));
    const sandbox = this.#sandbox;
    if (sandbox === undefined) throw new Error('the mail service was not started');
    const accounts = sandbox.mailboxes.map(({ address }, i) => ({
      ...{ tenant: DEFAULT_TENANT, name: nameOf(i) },
      settings: { baseUrl: sandbox.mailboxUrl, mailboxes: { include: [address] } },
      secrets: new Map([['token', sandbox.tokens.mailbox]]),
    }));
    await withFleet(this.#at('node-1'), (open) =>
      addAccountsEvenly(open, accounts, this.line.nodes),
    );
    const { length } = accounts;
    await output.object({ event: 'accounts-added', accounts: length }, () =>
      length === 1
        ? `Added the account ${nameOf(0)}.`
        : `Added the accounts ${nameOf(0)} to ${nameOf(length - 1)}, as "mailkeep fleet account add" does.`,
    );
  }

  async #mirror(): Promise<void> {
    const { output, notices, now } = this.context;
    const { mailboxes } = this.line;
    const startedAt = now();
    for (const node of this.#nodes) {
      const dir = path.join(this.folder, node);
      this.#workers.set(node, new DemoWorker(dir, this.#env, now));
    }
    notices.say(`\nStarting "mailkeep fleet worker" on each node …`);
    const mirrored = () => this.#sum(({ mirrored: accounts }) => accounts);
    await this.#until(mirrored, (done) => `${done} of ${mailboxes} mailboxes are mirrored.`);
    const seconds = Math.round((now() - startedAt) / 1000);
    const held = this.#nodes.map((node) => {
      const { open, mirrored: accounts } = this.#worker(node);
      return { node, shards: open.size, accounts: accounts.size };
    });
    const requests = this.#sandbox?.requests().total ?? 0;
    const facts = { accounts: mailboxes, seconds, requests, held };
    await output.object({ event: 'mirrored', ...facts }, () =>
      [
        `All ${mailboxes} are mirrored after ${seconds} s: `,
        held.map(({ node, accounts }) => `${node} holds ${accounts}`).join(', '),
        '.',
      ].join(''),
    );
  }

  async #takeOver(): Promise<void> {
    const { output, notices, now } = this.context;
    // Of few mailboxes, one node may hold all.
    const [dying = ''] = this.#nodes.toSorted((a, b) => this.#open(b).size - this.#open(a).size);
    const lost = [...this.#open(dying).keys()];
    const killedAt = now();
    notices.say(
      `\nKilling the worker of ${dying} with SIGKILL: it holds ${counted(lost.length, 'shard')}. Its session is dead after 30 s …`,
    );
    await this.#worker(dying).kill();
    this.#workers.delete(dying);
    const openedAt = (shard: number) =>
      Math.max(...[...this.#workers.values()].map(({ open }) => open.get(shard) ?? 0));
    const taken = () => lost.filter((shard) => openedAt(shard) > 0).length;
    await this.#until(taken, (done) => `${done} of ${lost.length} are taken over.`, lost.length);
    const times = lost.map((shard) => openedAt(shard) - killedAt).toSorted((a, b) => a - b);
    const facts = {
      ...{ killed: dying, shards: lost.length },
      ...{ firstMs: times[0] ?? 0, allMs: times.at(-1) ?? 0 },
    };
    const inSeconds = (ms: number): string => (ms / 1000).toFixed(1);
    await output.object(
      { event: 'taken-over', ...facts },
      () =>
        `All ${facts.shards} are held again: the first after ${inSeconds(facts.firstMs)} s, the last after ${inSeconds(facts.allMs)} s.`,
    );
  }

  get #nodes(): string[] {
    return Array.from({ length: this.line.nodes }, (_, i) => `node-${i + 1}`);
  }

  /** Waits until something has reached a number, and says how far it is now and then. */
  async #until(
    reached: () => number,
    text: (reached: number) => string,
    wanted = this.line.mailboxes,
  ): Promise<void> {
    const { signal, notices } = this.context;
    let said = 0;
    for (let now = reached(); now < wanted; now = reached()) {
      for (const worker of this.#workers.values()) worker.refuseEnd();
      if (now >= said + Math.max(1, wanted / STEPS)) {
        notices.say(text(now));
        said = now;
      }
      await delay(LOOK_MS, undefined, { signal });
    }
  }

  /** Runs a command of the fleet as at node-2, under its own words. */
  async #command(
    words: string,
    run: (context: CommandContext) => Promise<ExitCode>,
  ): Promise<void> {
    this.context.notices.say(`\n$ mailkeep fleet ${words}`);
    await run(this.#at('node-2'));
  }

  #at(node: string): CommandContext {
    const { context, folder } = this;
    const config = path.join(folder, node, 'config.json');
    return {
      ...context,
      globals: { ...context.globals, config, data: undefined },
      environment: { cwd: path.join(folder, node), env: this.#env },
    };
  }

  #open(node: string): ReadonlyMap<number, number> {
    return this.#worker(node).open;
  }

  #worker(node: string): DemoWorker {
    const worker = this.#workers.get(node);
    if (worker === undefined) throw new Error(`${node} has no worker`);
    return worker;
  }

  #sum(of: (worker: DemoWorker) => ReadonlySet<string>): number {
    return new Set([...this.#workers.values()].flatMap((worker) => [...of(worker)])).size;
  }

  #explained(): string {
    const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = this.#env;
    return [
      '',
      'The fleet stays until you press Ctrl-C. In another terminal:',
      `  cd ${path.join(this.folder, 'node-2')}`,
      `  export AWS_ACCESS_KEY_ID=${id} AWS_SECRET_ACCESS_KEY=${secret}`,
      '  mailkeep fleet status',
      `  mailkeep search --fleet-account ${nameOf(0)} invoice`,
    ].join('\n');
  }
}

/** `mailbox-001`, and so on. */
function nameOf(index: number): string {
  return `mailbox-${String(index + 1).padStart(3, '0')}`;
}
