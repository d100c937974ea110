import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';

/** Answers a command: text to send, or nothing if it has written to the socket. */
export type Answer = (
  tag: string,
  line: string,
  socket: Socket,
) => string | Buffer | undefined | Promise<string | undefined>;

export interface Script {
  readonly greeting?: string;
  readonly capabilities?: string;
  /** By verb, such as `UID FETCH`; replaces the usual answer. */
  readonly answers?: Readonly<Record<string, Answer>>;
}

const CAPABILITIES = 'IMAP4rev1 NAMESPACE ESEARCH LIST-EXTENDED LIST-STATUS UNSELECT';

/** Returns the uids from 1 to 3 that a UID FETCH or UID SEARCH asks for. */
export function askedUids(line: string): number[] {
  const set = /UID (?:FETCH )?([\d,:*]+)/.exec(line)?.[1] ?? '1:*';
  const parts = set.split(',').map((part) => {
    const [from = '', to = from] = part.split(':');
    return { lo: Number(from), hi: to === '*' ? 3 : Number(to) };
  });
  return [1, 2, 3].filter((uid) => parts.some(({ lo, hi }) => uid >= lo && uid <= hi));
}

const ok: Answer = (tag) => `${tag} OK done\r\n`;

const USUAL: Readonly<Record<string, Answer>> = {
  LOGIN: ok,
  NAMESPACE: (tag) => `* NAMESPACE (("" "/")) NIL NIL\r\n${tag} OK done\r\n`,
  LOGOUT: (tag) => `* BYE bye\r\n${tag} OK done\r\n`,
  UNSELECT: ok,
  NOOP: ok,
  NOTIFY: ok,
  IDLE: () => '+ idling\r\n',
  EXAMINE: (tag) =>
    `* 3 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 4] x\r\n${tag} OK [READ-ONLY] done\r\n`,
  'UID SEARCH': (tag, line) => {
    const uids = askedUids(line);
    const all = uids.length === 0 ? '' : ` ALL ${uids.join(',')}`;
    return line.includes('RETURN')
      ? `* ESEARCH (TAG "${tag}") UID COUNT ${uids.length}${all}\r\n${tag} OK done\r\n`
      : `* SEARCH ${uids.join(' ')}\r\n${tag} OK done\r\n`;
  },
  LIST: (tag) =>
    `* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UIDNEXT 4 UIDVALIDITY 7 UNSEEN 0)\r\n${tag} OK done\r\n`,
};

/** An IMAP server that answers as it is told. */
export class ScriptedServer {
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();
  /** Everything that clients sent, without tags. */
  readonly lines: string[] = [];
  /** The connection that sent the last IDLE. */
  idle: { readonly tag: string; readonly socket: Socket } | undefined;
  connections = 0;

  private constructor(private readonly script: Script) {
    this.#listener = createServer((socket) => this.#accept(socket));
  }

  static async start(script: Script): Promise<ScriptedServer> {
    const server = new ScriptedServer(script);
    await new Promise<void>((resolve) => server.#listener.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  stop(): void {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    this.connections += 1;
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
    socket.write(`${this.script.greeting ?? '* OK ready'}\r\n`);
    let text = '';
    let answered = Promise.resolve();
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      const lines = text.split('\r\n');
      text = lines.pop() ?? '';
      for (const line of lines) {
        if (line === 'DONE') {
          this.#endIdle(socket);
          continue;
        }
        this.lines.push(line.slice(line.indexOf(' ') + 1));
        // One after the other, as servers do.
        answered = answered.then(() => this.#answer(line, socket));
      }
    });
  }

  #endIdle(socket: Socket): void {
    this.lines.push('DONE');
    if (this.idle?.socket === socket) socket.write(`${this.idle.tag} OK done\r\n`);
  }

  async #answer(line: string, socket: Socket): Promise<void> {
    const [tag = '', first = '', second = ''] = line.split(' ');
    if (first === 'IDLE') this.idle = { tag, socket };
    const verb = first === 'UID' ? `UID ${second}` : first;
    const { capabilities = CAPABILITIES } = this.script;
    const answers: Readonly<Record<string, Answer>> = {
      ...USUAL,
      CAPABILITY: () => `* CAPABILITY ${capabilities}\r\n${tag} OK done\r\n`,
      ...this.script.answers,
    };
    const answer = await answers[verb]?.(tag, line, socket);
    if (answer !== undefined) socket.write(answer);
    else if (answers[verb] === undefined) socket.write(`${tag} BAD what?\r\n`);
  }
}

/** Writes until the other side closes the connection. Returns the number of bytes that it accepted. */
export async function writeForever(socket: Socket, chunk: string): Promise<number> {
  const bytes = Buffer.from(chunk.repeat(Math.ceil(65_536 / chunk.length)));
  let sent = 0;
  while (!socket.destroyed && socket.writable) {
    sent += bytes.length;
    if (socket.write(bytes)) await new Promise((resolve) => setImmediate(resolve));
    else
      await new Promise<void>((resolve) => {
        const go = (): void => {
          socket.off('drain', go);
          socket.off('close', go);
          resolve();
        };
        socket.on('drain', go);
        socket.on('close', go);
      });
  }
  return sent;
}
