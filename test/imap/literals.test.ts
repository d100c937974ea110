import { createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Secret } from '../../src/core/secrets.ts';
import { ImapSession, type Literal } from '../../src/imap/connection.ts';
import { type Seeded, seeded } from '../bench/seeded.ts';

const SIGNAL = new AbortController().signal;

/** What the server does with one literal. */
type Verdict = 'accept' | 'refuse-size' | 'refuse-early' | 'refuse-late';

interface Stored {
  readonly bytes: Buffer[];
  /** Literals announced with `+`, whose bytes follow at once. */
  unasked: number;
  /** The answer, decided when the command begins. */
  readonly verdict: Verdict;
}

/** A server that takes each command apart by the lengths of its literals, as servers do. */
class LiteralServer {
  readonly stored: Stored[] = [];
  verdict: Verdict = 'accept';
  #input = Buffer.alloc(0);

  constructor(
    private readonly socket: Socket,
    private readonly capabilities: string,
  ) {
    socket.on('error', () => {});
    socket.write('* OK ready\r\n');
    let current: (Stored & { readonly tag: string }) | undefined;
    let waiting = 0;
    socket.on('data', (bytes) => {
      this.#input = Buffer.concat([this.#input, bytes]);
      for (;;) {
        if (waiting > 0) {
          if (this.#input.length < waiting) return;
          current?.bytes.push(Buffer.from(this.#input.subarray(0, waiting)));
          this.#input = this.#input.subarray(waiting);
          waiting = 0;
        }
        const end = this.#input.indexOf('\r\n');
        if (end < 0) return;
        const line = this.#input.toString('latin1', 0, end);
        this.#input = this.#input.subarray(end + 2);
        const [, size, plus] = /\{(\d+)(\+?)\}$/.exec(line) ?? [];
        const [tag = ''] = line.split(' ');
        current ??= { tag, bytes: [], unasked: 0, verdict: this.verdict };
        const { verdict } = current;
        if (size === undefined) {
          this.#finish(current, line);
          current = undefined;
        } else if (plus === '' && verdict === 'refuse-size') {
          socket.write(`${current.tag} NO [LIMIT] no\r\n`);
          current = undefined;
        } else {
          if (plus === '') socket.write('+ go on\r\n');
          else current.unasked += 1;
          if (verdict === 'refuse-early') socket.write(`${current.tag} NO [LIMIT] no\r\n`);
          waiting = Number(size);
          if (waiting === 0) current.bytes.push(Buffer.alloc(0));
        }
      }
    });
  }

  #finish(current: Stored & { readonly tag: string }, line: string): void {
    const { tag, bytes, verdict } = current;
    if (bytes.length === 0) {
      if (line.includes('CAPABILITY')) this.socket.write(`* CAPABILITY ${this.capabilities}\r\n`);
      this.socket.write(`${tag} OK done\r\n`);
      return;
    }
    if (verdict === 'refuse-early') return;
    this.stored.push(current);
    this.socket.write(verdict === 'accept' ? `${tag} OK done\r\n` : `${tag} NO no\r\n`);
  }
}

async function connect(capabilities: string) {
  const servers: LiteralServer[] = [];
  const listener = createServer((socket) => servers.push(new LiteralServer(socket, capabilities)));
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void listener.close());
  const address = listener.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const session = await ImapSession.open(
    { host: '127.0.0.1', port, tls: 'none', user: 'anna' },
    { kind: 'password', secret: new Secret('correct-horse') },
    SIGNAL,
  );
  onTestFinished(() => session.close());
  const [server] = servers;
  if (server === undefined) throw new Error('no connection');
  return { session, server };
}

function randomLiteral(random: Seeded): Literal & { readonly bytes: Buffer } {
  const size = [0, 1, random.below(4096), 4096, 4097, random.below(300_000)][random.below(6)] ?? 0;
  const bytes = Buffer.alloc(size, `${random.below(1_000)}}\r\n`);
  const pieces = async function* () {
    for (let at = 0; at < size; at += 50_000) yield bytes.subarray(at, at + 50_000);
  };
  return { size, bytes, content: random.below(2) === 0 ? bytes : pieces };
}

test.each(['', 'LITERAL+', 'LITERAL-'])(
  'literals arrive whole, whatever the server answers to some of them: %s',
  async (capability) => {
    const { session, server } = await connect(`IMAP4rev1 ${capability}`.trim());
    const random = seeded('literals', capability);
    for (let round = 0; round < 60; round += 1) {
      const verdicts: Verdict[] = [
        'accept',
        'accept',
        'refuse-size',
        'refuse-early',
        'refuse-late',
      ];
      const literals = Array.from({ length: 1 + random.below(3) }, () => randomLiteral(random));
      const waits = random.below(2) === 0;
      const isAsked = literals.map(
        ({ size }) =>
          waits || !(capability === 'LITERAL+' || (capability === 'LITERAL-' && size <= 4096)),
      );
      const verdict = verdicts[random.below(verdicts.length)] ?? 'accept';
      // A server that refuses one of several literals early would refuse each of them.
      server.verdict = verdict === 'refuse-early' && literals.length > 1 ? 'refuse-late' : verdict;
      const before = server.stored.length;
      const parts = literals.flatMap((literal) => [' () ', literal]);
      const result = await session.runWithLiterals('APPEND', ['APPEND "INBOX"', ...parts], waits);
      const isTaken =
        server.verdict === 'accept' ||
        (server.verdict === 'refuse-size' && !isAsked.some((asked) => asked));
      // Where no size is asked for, it can be refused only after the bytes.
      if (isTaken && server.verdict === 'accept') expect(result.status).toBe('OK');
      else expect(result.status).toBe('NO');
      if (server.verdict === 'accept' || server.verdict === 'refuse-late') {
        const [stored] = server.stored.slice(before);
        expect(stored?.bytes).toEqual(literals.map(({ bytes }) => bytes));
        expect(stored?.unasked).toBe(isAsked.filter((asked) => !asked).length);
      }
      server.verdict = 'accept';
      // Half of a literal would swallow this command.
      expect(await session.run('NOOP', 'NOOP')).toMatchObject({ status: 'OK' });
    }
  },
);

test('a literal whose bytes cannot be read, or change their number, closes the connection', async () => {
  const contents: (() => AsyncIterable<Buffer>)[] = [
    async function* () {
      yield Buffer.alloc(50_000);
      throw new Error('damaged');
    },
    async function* () {
      yield Buffer.alloc(99_999);
    },
    async function* () {
      yield Buffer.alloc(60_000);
      yield Buffer.alloc(60_000);
    },
  ];
  for (const content of contents) {
    const { session, server } = await connect('IMAP4rev1');
    const parts = ['APPEND "INBOX" () ', { size: 100_000, content }];
    await expect(session.runWithLiterals('APPEND', parts, true)).rejects.toThrow(/damaged|changed/);
    expect(session.usable).toBe(false);
    expect(server.stored).toEqual([]);
  }
});

test('a line break within a command is never sent', async () => {
  const { session } = await connect('IMAP4rev1');
  await expect(session.run('CREATE', 'CREATE "a\r\nk9 DELETE b"')).rejects.toThrow('line break');
  expect(await session.run('NOOP', 'NOOP')).toMatchObject({ status: 'OK' });
});
