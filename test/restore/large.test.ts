import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { archiveError } from '../../src/archive/errors.ts';
import { Secret } from '../../src/core/secrets.ts';
import { connectImap } from '../../src/transfer/imap-connection.ts';
import type { RestoreOptions } from '../../src/transfer/plan-restore.ts';
import {
  changesIn,
  messageIdOf,
  piecesOf,
  readForm,
  sentForm,
} from '../../src/transfer/restore-comparison.ts';
import { seeded } from '../bench/seeded.ts';
import { StoredArchive, sha256 } from '../export/stored-archive.ts';
import { type Dovecot, startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import type { Fault } from '../imap/faults.ts';
import { ImapProxy } from '../imap/proxy.ts';
import { mailBelow } from '../imap/read-back.ts';
import { PASSWORD } from '../imap/server.ts';
import { Restoring } from './restoring.ts';

const without = withoutDovecot();
const MB = 1024 * 1024;

function letter(id: string, body: Buffer | string, more = '') {
  const head = `Message-ID: <${id}@example.org>\nSubject: ${id}\n${more}\n`;
  return {
    folder: 'INBOX',
    source: Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]),
    messageId: `<${id}@example.org>`,
  };
}

/** Larger than what is read at once; with LF alone, so that its length is not that of the source. */
const LARGE = letter('large', 'A line that ends in LF alone.\n'.repeat(200_000), 'X: \xe4\n');
const SMALL = letter('small', 'x\n');

let server: Dovecot;
let archive: StoredArchive;
let prefixes = 0;

beforeAll(async () => {
  archive = await StoredArchive.create();
  await archive.store([LARGE, SMALL], { delimiter: '/' });
  if (!without) server = await startDovecot({ specialFolders: false });
});
afterAll(async () => {
  await server?.stop();
  archive.remove();
});

/** Restores to a folder of its own through a proxy. */
async function restoring(faults: readonly Fault[] = []) {
  prefixes += 1;
  const prefix = `Run ${prefixes}`;
  const proxy = await ImapProxy.start({ to: server, faults });
  const user = new Restoring(archive, server);
  onTestFinished(async () => {
    await proxy.stop();
    user.remove();
  });
  user.whileWaiting = () => proxy.deliver();
  const run = (options: Partial<RestoreOptions> = {}) =>
    user.run(proxy.port, { destination: { kind: 'into', levels: [prefix] }, ...options });
  const there = async () =>
    (await mailBelow(server, `${prefix}/`)).map((message) => message.sha256).sort();
  return { run, there, proxy };
}

const everything = [LARGE, SMALL].map(({ source }) => sha256(sentForm(source).content)).sort();

describe.skipIf(without)('a message that is sent in pieces', () => {
  test('arrives as one that is sent at once, and is found there', async () => {
    const { run, there, proxy } = await restoring();
    expect(await run()).toMatchObject({ appended: 2, looked: { compared: 2, fetched: 2 } });
    expect(await there()).toEqual(everything);
    const sizes = proxy.commands.map(({ text }) => /\{(\d+)\}$/.exec(text)?.[1]);
    expect(sizes).toContain(String(sentForm(LARGE.source).content.length));
    const again = await run({ fresh: true });
    expect(again).toMatchObject({ appended: 0, present: 2 });
  });

  test.each<Fault>([
    { command: 'APPEND', nth: 1, do: 'cut-in-literal', bytes: 10_000 },
    { command: 'APPEND', nth: 1, do: 'cut-before-answer' },
    { do: 'cut', to: 'server', afterBytes: 3 * MB },
  ])('is there once after $do', async (fault) => {
    const { run, there, proxy } = await restoring([fault]);
    expect(await run({ jobs: 1 })).toMatchObject({ appended: 2, refused: 0, doubled: [] });
    expect(proxy.happened).toEqual([fault]);
    expect(await there()).toEqual(everything);
  });

  test.each([true, false])('is refused, before its bytes or after: %s', async (early) => {
    const text = 'NO [LIMIT] Too large';
    const fault: Fault = { command: 'APPEND', nth: 1, do: 'answer', text, early };
    const { run, there } = await restoring([fault]);
    const result = await run({ jobs: 1 });
    expect(result).toMatchObject({ appended: 1, refused: 1, refusals: { 'append-limit': 1 } });
    expect(await run()).toMatchObject({ appended: 1, present: 1 });
    expect(await there()).toEqual(everything);
  });

  test('turns out to be damaged while it is sent: the server gets nothing of it', async () => {
    const { run, there } = await restoring();
    let times = 0;
    const sources: RestoreOptions['sources'] = {
      readMessage: (id) => archive.sources.readMessage(id),
      streamMessage: async function* (id) {
        yield* archive.sources.streamMessage(id);
        times += 1;
        if (times > 1) throw archiveError('message-damaged', { message: id, reason: 'hash' });
      },
    };
    const result = await run({ sources });
    expect(result).toMatchObject({ appended: 1, refusals: { damaged: 1 } });
    expect(await there()).toEqual([sha256(sentForm(SMALL.source).content)]);
  });
});

test('no more is read than the server takes', { timeout: 60_000 }, async () => {
  const stalled = Promise.withResolvers<Socket>();
  const listener = createServer((socket) => {
    socket.on('error', () => {});
    socket.write('* OK ready\r\n');
    let isPast = false;
    socket.on('data', (bytes) => {
      const [tag = '', command = ''] = bytes.toString('latin1').split(' ');
      if (isPast) return;
      if (command.startsWith('APPEND')) {
        isPast = true;
        socket.write('+ go on\r\n');
        socket.pause();
        stalled.resolve(socket);
        return;
      }
      if (command.startsWith('CAPABILITY')) socket.write('* CAPABILITY IMAP4rev1\r\n');
      if (command.startsWith('SELECT')) socket.write('* 0 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n');
      socket.write(`${tag} OK done\r\n`);
    });
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  onTestFinished(() => void listener.close());
  const address = listener.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const connection = await connectImap(
    { host: '127.0.0.1', port, user: 'anna', tls: 'none' },
    async () => ({ kind: 'password', secret: new Secret(PASSWORD) }),
    new AbortController().signal,
  );
  await connection.select('INBOX');
  let pieces = 0;
  const size = 400 * MB;
  const content = async function* () {
    for (; pieces < 400; pieces += 1) yield Buffer.alloc(MB, 'x');
  };
  const appended = connection.append('INBOX', [{ content, size, flags: [], date: null }], true);
  appended.catch(() => {});
  const socket = await stalled.promise;
  // Turns of the event loop, of which a message that is read whether or not it is taken needs one a piece.
  for (let turn = 0; turn < 4000; turn += 1)
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  // What the two kernels and one piece hold.
  expect(pieces).toBeLessThan(100);
  socket.destroy();
  await expect(appended).rejects.toMatchObject({ code: 'restore-connection-lost' });
  await connection.close();
});

test('a source in pieces has the form that it has as one, wherever it is cut', async () => {
  const random = seeded('large', 20261125);
  const BITS = ['\r\n', '\n', '\r', '\r\n\r\n', '\n\n', 'Message-ID: <1@x>', 'a', '\0', '\xe4'];
  for (let round = 0; round < 400; round += 1) {
    const parts = Array.from({ length: random.below(14) }, () =>
      Buffer.from(BITS[random.below(BITS.length)] ?? '', 'latin1'),
    );
    const source = Buffer.concat(parts);
    const reader = {
      readMessage: () => source,
      streamMessage: async function* () {
        for (let at = 0; at < source.length; ) {
          const next = at + 1 + random.below(4);
          yield source.subarray(at, next);
          at = next;
        }
      },
    };
    const whole = sentForm(source);
    const form = await readForm(reader, { id: 'x', size: 5 * MB });
    if (typeof form === 'string') throw new Error(form);
    const pieces: Buffer[] = [];
    for await (const piece of piecesOf(form.content)) pieces.push(piece);
    expect(Buffer.concat(pieces)).toEqual(whole.content);
    const { content: _, ...facts } = form;
    const { content: __, ...expected } = whole;
    expect({ ...facts, id: messageIdOf(form.head) }).toEqual({
      ...expected,
      id: messageIdOf(whole.head),
    });
    // It is compared with what a server makes of it, in other pieces.
    const altered = Buffer.from(
      whole.content.filter((byte, i) => byte !== 13 || i % 3 > 0).map((byte) => byte || 128),
    );
    const cut = altered.length === 0 ? [] : [altered.subarray(0, 3), altered.subarray(3)];
    expect((await changesIn(form, cut))?.toSorted()).toEqual(
      (await changesIn(whole, [altered]))?.toSorted(),
    );
    expect(await changesIn(form, cut)).toBeDefined();
    expect(await changesIn(form, [...cut, Buffer.from('z')])).toBeUndefined();
  }
});
