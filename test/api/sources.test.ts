import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, open, openSync, readdirSync, statSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BodyCollector } from '../../src/service/requests.ts';
import { type Answer, envelope, json, raw, startOrigin } from './local-origin.ts';
import { failureOf, mailboxClient, serving } from './test-clients.ts';

const at = { mailbox: 'AC1', folder: 'INBOX', uid: 7 };
const MAIL = Buffer.from(
  'Message-ID: <a@b>\r\nSubject: x\r\n\r\nbody \xff\x00 bytes\r\n',
  'latin1',
);
const MAIL_TYPE = { 'content-type': 'message/rfc822' };
const MIB = 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** Bytes of buffers that are still referred to. */
function heldBytes(): number {
  if (typeof collect !== 'function') throw new Error('no garbage collector to call');
  // The second run waits until what the first found is free.
  collect();
  collect();
  return process.memoryUsage().arrayBuffers;
}
const ONCE = { retries: { attempts: 1 } };

async function spoolDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'mailkeep-spool-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Makes each asynchronous file operation of this process wait, as a failing disk does, until it is released. */
async function stuckDisk(): Promise<() => Promise<void>> {
  const dir = await spoolDir();
  // Opening a pipe that nobody writes to waits; it is done in each thread that libuv has for files.
  const threads = Number(process.env.UV_THREADPOOL_SIZE ?? 4);
  const pipes = Array.from({ length: threads }, (_, index) => join(dir, `pipe-${index}`));
  execFileSync('mkfifo', pipes);
  for (const pipe of pipes) {
    open(pipe, 'r', (_error, opened) => {
      if (opened !== undefined) closeSync(opened);
    });
  }
  return async () => {
    // What was sent is read before the disk works again.
    for (let turns = 0; turns < 100; turns += 1) await turn();
    for (const pipe of pipes) closeSync(openSync(pipe, 'w'));
  };
}

/** Sends without announcing a length: in chunks, or until the connection closes. */
function unannounced(body: Buffer, how: 'chunked' | 'until close'): Answer {
  return (_request, response) => {
    if (how === 'until close') {
      response.useChunkedEncodingByDefault = false;
      response.removeHeader('transfer-encoding');
      response.setHeader('connection', 'close');
    }
    response.writeHead(200, MAIL_TYPE);
    response.end(body);
  };
}

describe('a source', () => {
  test('comes byte for byte', async () => {
    const { client } = await serving(raw(200, MAIL, MAIL_TYPE));
    expect(await client.getMessageSource(at)).toEqual({
      kind: 'buffer',
      bytes: MAIL,
      contentLength: MAIL.length,
      contentType: 'message/rfc822',
    });
  });

  test.each(['chunked', 'until close'] as const)('%s has no announced length', async (how) => {
    const { client } = await serving(unannounced(MAIL, how));
    const source = await client.getMessageSource(at);
    expect(source).toMatchObject({ kind: 'buffer', contentLength: null });
    expect(source.kind === 'buffer' && source.bytes.equals(MAIL)).toBe(true);
  });

  test('of no bytes is a source of no bytes', async () => {
    const { client } = await serving(raw(200, '', MAIL_TYPE));
    expect(await client.getMessageSource(at)).toMatchObject({ bytes: Buffer.alloc(0) });
  });

  test('may say more about its type', async () => {
    const type = { 'content-type': 'Message/RFC822; charset="utf-8"' };
    const { client } = await serving(raw(200, MAIL, type));
    expect(await client.getMessageSource(at)).toMatchObject({ contentType: 'message/rfc822' });
  });

  test.each([
    [
      'a portal page',
      raw(200, '<html>Sign in</html>', { 'content-type': 'text/html' }),
      'web-page',
    ],
    [
      'a page that says it is text',
      raw(200, '<html>x', { 'content-type': 'text/plain' }),
      'web-page',
    ],
    ['text', raw(200, MAIL, { 'content-type': 'text/plain' }), 'other-type'],
    ['no type', raw(200, MAIL), 'other-type'],
    ['JSON', json(200, { data: {} }), 'other-type'],
    ['packed', raw(200, MAIL, { ...MAIL_TYPE, 'content-encoding': 'gzip' }), 'encoded'],
  ])('is never %s', async (_name, answer, what) => {
    const { origin, client } = await serving(answer);
    const error = await failureOf(client.getMessageSource(at));
    expect(error.code).toBe('origin.not-mail');
    expect(error.facts).toMatchObject({ what, status: 200 });
    expect(origin.seen).toHaveLength(5);
  });

  test.each([
    ['announced', 100],
    ['in chunks', null],
  ])('cut short, %s, is no source', async (_name, expected) => {
    const cut: Answer = (_request, response) => {
      const length = expected === null ? {} : { 'content-length': String(expected) };
      response.writeHead(200, { ...MAIL_TYPE, ...length });
      response.write(MAIL.subarray(0, 20), () => response.destroy());
    };
    const origin = await startOrigin([cut, raw(200, MAIL, MAIL_TYPE)]);
    const impatient = mailboxClient(origin.url, ONCE);
    const error = await failureOf(impatient.client.getMessageSource(at));
    expect(error.code).toBe('origin.cut-short');
    expect(error.facts).toMatchObject({ expected });
    const { client } = mailboxClient(origin.url);
    expect(await client.getMessageSource(at)).toMatchObject({ bytes: MAIL });
  });

  test('404 is a refusal, not a source', async () => {
    const { client } = await serving(envelope(404, 'ERR_MESSAGE_NOT_FOUND'));
    const error = await failureOf(client.getMessageSource(at));
    expect(error.facts).toMatchObject({ status: 404, code: 'ERR_MESSAGE_NOT_FOUND' });
  });
});

describe('a large source', () => {
  const large = Buffer.alloc(3_000_000, 'Received: from somewhere\r\n');

  test.each([
    ['announced', raw(200, large, MAIL_TYPE)],
    ['in chunks', unannounced(large, 'chunked')],
    ['until close', unannounced(large, 'until close')],
  ])('goes to a file of mode 0600, %s', async (_name, answer) => {
    const dir = await spoolDir();
    const { client } = await serving(answer);
    const source = await client.getMessageSource(at, { spoolDir: dir, inMemoryLimit: 100_000 });
    if (source.kind !== 'file') throw new Error('not in a file');
    expect((await stat(source.path)).mode & 0o777).toBe(0o600);
    expect(source.size).toBe(large.length);
    expect(source.sha256).toBe(createHash('sha256').update(large).digest('hex'));
    expect((await readFile(source.path)).equals(large)).toBe(true);
    expect(await readdir(dir)).toHaveLength(1);
  });

  test.each([
    ['announced', (size: number) => `content-length: ${size}\r\n`],
    ['until close', () => ''],
  ])(
    'comes whole where the connection ends before the disk has taken it, %s',
    async (_name, length) => {
      const dir = await spoolDir();
      const pieces = [40_000, 40_000, MIB].map((size) =>
        Buffer.alloc(size, 'Received: from here\r\n'),
      );
      const body = Buffer.concat(pieces);
      const { client } = await serving(async (_request, { socket }) => {
        if (socket === null) throw new Error('no connection');
        const [first, second, rest] = pieces;
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: message/rfc822\r\n${length(body.length)}`);
        socket.write('connection: close\r\n\r\n');
        socket.write(first ?? '');
        const sizes = () => readdirSync(dir).map((name) => statSync(join(dir, name)).size);
        while (sizes()[0] !== first?.length) await turn();
        // From here on, one piece is on its way to the disk, and the rest waits for it: one mebibyte may, so the
        // answer is paused just before its end, continues when the piece is written, and is paused again at its end.
        const release = await stuckDisk();
        socket.write(second ?? '', () => socket.end(rest ?? '', release));
      });
      const source = await client.getMessageSource(at, { spoolDir: dir, inMemoryLimit: 1000 });
      expect(source).toMatchObject({ kind: 'file', size: body.length });
      if (source.kind === 'file') expect((await readFile(source.path)).equals(body)).toBe(true);
    },
  );

  test.each([
    ['announced', (size: number) => `content-length: ${size}\r\n`],
    ['until close', () => ''],
  ])(
    'comes whole where its last bytes pause it, and the connection ends, %s',
    async (_name, length) => {
      const dir = await spoolDir();
      // While the disk is stuck, exactly as much comes as may wait for it.
      const [first, rest] = [40_000, MIB].map((size) =>
        Buffer.alloc(size, 'Received: from here\r\n'),
      );
      if (first === undefined || rest === undefined) throw new Error('no pieces');
      const body = Buffer.concat([first, rest]);
      const { client } = await serving(async (_request, { socket }) => {
        if (socket === null) throw new Error('no connection');
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: message/rfc822\r\n${length(body.length)}`);
        socket.write('connection: close\r\n\r\n');
        socket.write(first);
        const sizes = () => readdirSync(dir).map((name) => statSync(join(dir, name)).size);
        while (sizes()[0] !== first.length) await turn();
        const release = await stuckDisk();
        socket.end(rest, release);
      });
      const source = await client.getMessageSource(at, { spoolDir: dir, inMemoryLimit: 1000 });
      expect(source).toMatchObject({ kind: 'file', size: body.length });
      if (source.kind === 'file') expect((await readFile(source.path)).equals(body)).toBe(true);
    },
  );

  test('of any size comes whole, in memory or in a file', async () => {
    const dir = await spoolDir();
    let body = Buffer.alloc(0);
    let announce = true;
    const { client } = await serving((request, response) =>
      (announce ? raw(200, body, MAIL_TYPE) : unannounced(body, 'chunked'))(request, response),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 400_000 }),
        fc.integer({ min: 1, max: 200_000 }),
        fc.boolean(),
        async (size, inMemoryLimit, announced) => {
          body = Buffer.alloc(size, 'abcdefghijk');
          announce = announced;
          const source = await client.getMessageSource(at, { spoolDir: dir, inMemoryLimit });
          expect(source.kind).toBe(size > inMemoryLimit ? 'file' : 'buffer');
          const bytes = source.kind === 'file' ? await readFile(source.path) : source.bytes;
          expect(bytes.equals(body)).toBe(true);
        },
      ),
      { numRuns: 40 },
    );
  });

  const endings: readonly [string, Answer, string][] = [
    [
      'breaks off',
      (_request, response) => {
        response.writeHead(200, { ...MAIL_TYPE, 'content-length': String(large.length) });
        response.write(large.subarray(0, 2_000_000), () => response.destroy());
      },
      'origin.cut-short',
    ],
    ['is of another type', raw(200, large, { 'content-type': 'text/html' }), 'origin.not-mail'],
    ['announces more than the ceiling', raw(200, large, MAIL_TYPE), 'origin.too-large'],
    ['grows past the ceiling', unannounced(large, 'chunked'), 'origin.too-large'],
  ];
  test.each(endings)('that %s leaves no file behind', async (name, answer, code) => {
    const dir = await spoolDir();
    const { client } = await serving(answer, ONCE);
    const ceiling = name.includes('ceiling') ? 2_500_000 : 10_000_000;
    const error = await failureOf(
      client.getMessageSource(at, { spoolDir: dir, inMemoryLimit: 50_000, ceiling }),
    );
    expect(error.code).toBe(code);
    if (name.includes('ceiling')) {
      expect(error.facts).toMatchObject({ what: 'source', limit: ceiling });
    }
    expect(await readdir(dir)).toEqual([]);
  });

  test('that nobody waits for any more leaves no file behind', async () => {
    const dir = await spoolDir();
    const stop = new AbortController();
    const reason = new Error('stopped');
    const { client } = await serving((_request, response) => {
      response.writeHead(200, MAIL_TYPE);
      // The rest never comes: the client is stopped when the first part is on its way to the file.
      response.write(large, () => setImmediate(() => stop.abort(reason)));
    });
    await expect(
      client.getMessageSource(at, { spoolDir: dir, inMemoryLimit: 1000, signal: stop.signal }),
    ).rejects.toBe(reason);
    expect(await readdir(dir)).toEqual([]);
  });

  test('without a folder to put it is a failure of the disk, not of the origin', async () => {
    const { origin, client } = await serving(raw(200, large, MAIL_TYPE));
    const dir = join(await spoolDir(), 'missing');
    const error = await failureOf(
      client.getMessageSource(at, { spoolDir: dir, inMemoryLimit: 1000 }),
    );
    expect(error).toMatchObject({ family: 'disk', code: 'spool-failed' });
    expect(error.facts).toEqual({ dir, reason: 'ENOENT' });
    expect(origin.seen).toHaveLength(1);
  });

  test('does not lie in memory whole', async () => {
    const dir = await spoolDir();
    const size = 200 * MIB;
    const piece = Buffer.alloc(MIB, 'x');
    /** What is still referred to, every ten pieces, while the sender waits: garbage does not count. */
    const held: number[] = [];
    const { client } = await serving((_request, response) => {
      response.writeHead(200, { ...MAIL_TYPE, 'content-length': String(size) });
      let left = size / piece.length;
      const pour = () => {
        if (left % 10 === 0) held.push(heldBytes());
        left -= 1;
        if (left > 0) response.write(piece, pour);
        else response.end(piece);
      };
      pour();
    });
    const before = heldBytes();
    const source = await client.getMessageSource(at, { spoolDir: dir });
    expect(source).toMatchObject({ kind: 'file', size });
    expect(held).toHaveLength(20);
    expect(Math.max(...held) - before).toBeLessThan(20 * MIB);
  });

  test('that comes faster than the disk takes it is asked to wait', async () => {
    const dir = await spoolDir();
    let resumed: () => void = () => {};
    const fail = (error: Error) => {
      throw error;
    };
    const taker = new BodyCollector({ dir, inMemoryLimit: 100_000, resume: () => resumed(), fail });
    const chunk = Buffer.alloc(65_536, 'y');
    for (let round = 1; round <= 3; round += 1) {
      // Nothing is written meanwhile: writing begins when this function waits.
      let taken = chunk.length;
      while (taker.take(chunk)) {
        taken += chunk.length;
        if (taken > 10 * MIB) throw new Error('nobody is asked to wait');
      }
      expect(taken).toBeLessThanOrEqual(MIB + chunk.length);
      await new Promise<void>((resolve) => {
        resumed = resolve;
      });
    }
    const body = await taker.finish();
    expect(body).toMatchObject({ kind: 'file' });
  });
});

describe('an attachment', () => {
  test('is octets, and nothing else', async () => {
    const octets = { 'content-type': 'application/octet-stream' };
    const { client } = await serving(
      [raw(200, MAIL, octets), raw(200, '<html>', { 'content-type': 'text/html' })],
      ONCE,
    );
    expect(await client.getMessageAttachment(at, '2')).toMatchObject({ bytes: MAIL });
    const error = await failureOf(client.getMessageAttachment(at, '2'));
    expect(error.code).toBe('origin.not-bytes');
  });
});
