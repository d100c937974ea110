import { connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { lastingPort } from '../peers/ports.ts';
import type { Certificate } from './certificate.ts';
import type { Fault } from './faults.ts';
import { type CommandFault, ProxiedConnection, type SentCommand } from './proxied-connection.ts';

export interface ProxyOptions {
  /** The server's port without TLS. */
  readonly to: { readonly host: string; readonly port: number };
  /** With it, clients connect with TLS. */
  readonly certificate?: Certificate;
  readonly faults?: readonly Fault[];
  /** Refuses each command that a mirror has no need to send. Refusals are among the faults that happened. */
  readonly readOnly?: boolean;
  /** Reports whether clients do not get a line of the server. */
  readonly omits?: (line: string) => boolean;
}

/** Commands of a mirror. It opens folders with EXAMINE, and fetches with PEEK. */
const READING: ReadonlySet<string> = new Set([
  ...['CAPABILITY', 'ENABLE', 'ID', 'NAMESPACE', 'LIST', 'STATUS', 'EXAMINE', 'UNSELECT'],
  ...['UID SEARCH', 'UID FETCH', 'NOOP', 'IDLE', 'NOTIFY', 'GETQUOTAROOT'],
  ...['STARTTLS', 'LOGIN', 'AUTHENTICATE', 'LOGOUT'],
]);

function isReading({ verb, text }: SentCommand): boolean {
  if (!READING.has(verb)) return false;
  return verb !== 'UID FETCH' || !/BODY\[|BINARY\[|RFC822(?!\.SIZE)/i.test(text);
}

/** Stands between IMAP clients and a server, records what they send, and makes faults at given moments. */
export class ImapProxy {
  readonly host = '127.0.0.1';
  readonly #options: ProxyOptions;
  readonly #listener: Server;
  readonly #open = new Set<ProxiedConnection>();
  readonly #commands: SentCommand[] = [];
  readonly #planned: Fault[];
  readonly #happened: Fault[] = [];
  readonly #waiting = new Map<Fault, () => void>();
  readonly #met = new Map<string, number>();
  readonly #passed = { server: 0, client: 0 };
  #connections = 0;
  #port = 0;

  private constructor(options: ProxyOptions) {
    this.#options = options;
    this.#planned = [...(options.faults ?? [])];
    const { certificate } = options;
    this.#listener =
      certificate === undefined
        ? createServer((socket) => this.#accept(socket))
        : createTlsServer({ cert: certificate.pem, key: certificate.key }, (socket) =>
            this.#accept(socket),
          );
    // A client that does not trust the certificate.
    this.#listener.on('tlsClientError', () => {});
  }

  /** Listens on a free port, which it keeps. */
  static async start(options: ProxyOptions): Promise<ImapProxy> {
    const proxy = new ImapProxy(options);
    proxy.#port = await lastingPort();
    await proxy.accept();
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  /** Everything that clients sent, in order. */
  get commands(): readonly SentCommand[] {
    return this.#commands;
  }

  /** The kinds of commands that clients sent, each once, in order of the alphabet. */
  get verbs(): string[] {
    return [...new Set(this.#commands.map(({ verb }) => verb))].sort();
  }

  /** The faults that happened, in order. */
  get happened(): readonly Fault[] {
    return this.#happened;
  }

  /** How many connections were accepted. */
  get connections(): number {
    return this.#connections;
  }

  /** How many bytes passed in each direction. */
  get passed(): { readonly server: number; readonly client: number } {
    return { ...this.#passed };
  }

  /** Adds a fault, and returns a promise of the moment it happens. */
  plan(fault: Fault): Promise<void> {
    this.#planned.push(fault);
    return this.until(fault);
  }

  /** Waits until a fault happens: the same object that was given. */
  until(fault: Fault): Promise<void> {
    if (this.#happened.includes(fault)) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.set(fault, resolve));
  }

  /** Lets servers have what faults deliver late, and waits for their answers. */
  async deliver(): Promise<void> {
    await Promise.all([...this.#open].map((connection) => connection.deliver()));
  }

  /** Lets pass what faults hold. */
  release(): void {
    for (const connection of this.#open) connection.release();
  }

  /** Ends all connections. */
  cutAll(): void {
    for (const connection of this.#open) connection.cut();
  }

  /** Refuses new connections, as a server does that does not run. */
  refuse(): Promise<void> {
    return new Promise((resolve) => {
      // Resolves only when the open connections have ended, which nobody here waits for.
      this.#listener.close();
      resolve();
    });
  }

  /** Accepts connections again, at the same port. */
  accept(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#listener.once('error', reject);
      this.#listener.listen(this.#port, this.host, () => {
        this.#listener.removeListener('error', reject);
        resolve();
      });
    });
  }

  /** Ends it, with all connections. */
  async stop(): Promise<void> {
    await this.refuse();
    this.cutAll();
  }

  #accept(client: Socket): void {
    this.#connections += 1;
    const number = this.#connections;
    client.on('error', () => {});
    const fault = this.#planned.find((one) => 'connection' in one && one.connection === number);
    if (fault?.do === 'refuse' || fault?.do === 'bye') {
      this.#report(fault);
      if (fault.do === 'bye') client.end(`* BYE ${fault.text}\r\n`);
      else client.resetAndDestroy();
      return;
    }
    const { host, port } = this.#options.to;
    const server = connect(port, host);
    // Otherwise each of several short lines waits for the acknowledgement of the one before.
    for (const socket of [client, server]) socket.setNoDelay(true);
    const connection = new ProxiedConnection(number, client, server, {
      meet: (command) => this.#meet(command),
      allow: (to, bytes) => this.#allow(to, bytes),
      omits: (line) => this.#options.omits?.(line) === true,
      report: (one) => this.#report(one),
    });
    this.#open.add(connection);
    server.on('close', () => this.#open.delete(connection));
  }

  #meet(command: SentCommand): CommandFault | undefined {
    this.#commands.push(command);
    if (this.#options.readOnly === true && !isReading(command)) {
      return { command: command.verb, nth: 0, do: 'answer', text: 'NO Only reading passes here' };
    }
    const nth = (this.#met.get(command.verb) ?? 0) + 1;
    this.#met.set(command.verb, nth);
    return this.#planned.find(
      (fault): fault is CommandFault =>
        'command' in fault && fault.command === command.verb && fault.nth === nth,
    );
  }

  #allow(to: 'server' | 'client', bytes: number): number | undefined {
    const before = this.#passed[to];
    this.#passed[to] += bytes;
    const fault = this.#planned.find(
      (one) =>
        one.do === 'cut' &&
        one.to === to &&
        !this.#happened.includes(one) &&
        one.afterBytes < before + bytes,
    );
    if (fault?.do !== 'cut') return undefined;
    this.#report(fault);
    const allowed = Math.max(0, fault.afterBytes - before);
    this.#passed[to] = before + allowed;
    return allowed;
  }

  #report(fault: Fault): void {
    this.#happened.push(fault);
    this.#waiting.get(fault)?.();
    this.#waiting.delete(fault);
  }
}
