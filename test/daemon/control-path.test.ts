import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { askStatus, askSync, isListening, requestSync } from '../../src/daemon/control.ts';
import { findControlSocket, prepareControlSocket } from '../../src/daemon/control-path.ts';

const VERSION = '9.9.9';
const MESSAGE = {
  mailboxes: [],
  folders: [],
  full: false,
  acceptEndings: false,
  dryRun: false,
};

let folder: string;
let data: string;
let elsewhere: string;
const open: Server[] = [];

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'mk-'));
  data = path.join(folder, 'data');
  elsewhere = path.join(folder, 'run');
  mkdirSync(data);
  mkdirSync(elsewhere, { mode: 0o700 });
});
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
  rmSync(folder, { recursive: true });
});

async function listening(socket: string, answer: RequestListener = () => {}): Promise<string> {
  const server = createServer(answer);
  open.push(server);
  server.listen(socket);
  await once(server, 'listening');
  return socket;
}

const point = (to: string): void => writeFileSync(path.join(data, 'control.path'), `${to}\n`);
const foreign = expect.objectContaining({ family: 'config', code: 'daemon-socket-foreign' });

describe('the control socket of an archive', () => {
  test.skipIf(process.platform !== 'linux')(
    'that has no place says so where the system makes no folder',
    () => {
      const deep = path.join(data, 'x'.repeat(100));
      mkdirSync(deep);
      expect(() => prepareControlSocket(deep, { XDG_RUNTIME_DIR: '/proc' })).toThrow(
        expect.objectContaining({
          code: 'daemon-socket-folder',
          facts: { folder: '/proc/mailkeep' },
        }),
      );
    },
  );

  test('is followed into a private folder, and into no other', async () => {
    expect(findControlSocket(data)).toBeNull();
    const socket = await listening(path.join(elsewhere, 's'));
    point(socket);
    expect(findControlSocket(data)).toBe(socket);
    for (const mode of [0o755, 0o770, 0o701]) {
      chmodSync(elsewhere, mode);
      expect(() => findControlSocket(data)).toThrow(foreign);
    }
    chmodSync(elsewhere, 0o700);
    symlinkSync(elsewhere, path.join(folder, 'link'));
    point(path.join(folder, 'link', 's'));
    expect(() => findControlSocket(data)).toThrow(foreign);
    point(path.join(elsewhere, 'nothing'));
    expect(findControlSocket(data)).toBeNull();
  });

  test('is a socket, and what names it a small file', async () => {
    writeFileSync(path.join(elsewhere, 'file'), '');
    point(path.join(elsewhere, 'file'));
    expect(() => findControlSocket(data)).toThrow(foreign);
    const socket = await listening(path.join(elsewhere, 's'));
    point(socket + '\n'.repeat(5_000));
    expect(() => findControlSocket(data)).toThrow(foreign);
    unlinkSync(path.join(data, 'control.path'));
    symlinkSync(socket, path.join(data, 'control.sock'));
    expect(() => findControlSocket(data)).toThrow(foreign);
  });
});

describe('an answer of the control socket', () => {
  const asked = async (body: string | (() => Generator<Buffer>)) => {
    const socket = await listening(path.join(elsewhere, 's'), (request, response) => {
      request.resume();
      response.setHeader('x-mailkeep-version', VERSION);
      if (typeof body === 'string') {
        response.end(body);
        return;
      }
      const pieces = body();
      const more = (): void => {
        const { value, done } = pieces.next();
        if (done === true) response.end();
        else response.write(value, more);
      };
      more();
    });
    return socket;
  };
  const sync = (socket: string, heard: unknown[] = []) =>
    askSync(socket, MESSAGE, {
      version: VERSION,
      progress: (event) => heard.push(event),
      signal: new AbortController().signal,
    });

  test.each([
    ['no JSON', 'hello\n'],
    ['nothing known', '{"other":1}\n'],
    ['a result without its parts', '{"result":{}}\n'],
    ['progress of another kind', '{"progress":{"event":"x"}}\n'],
    [
      'a plan whose mailboxes are a text',
      '{"plan":{"mailboxes":"x","messages":1,"requests":1,"requestsPerMinute":1,"hours":1}}\n',
    ],
    [
      'facts that are no plain values',
      '{"error":{"family":"usage","code":"x","facts":{"a":{"b":1}}}}\n',
    ],
  ])('that is %s is refused', async (_, body) => {
    await expect(sync(await asked(body))).rejects.toMatchObject({ code: 'daemon-answer' });
  });

  test('is taken line by line, however it comes in pieces', async () => {
    const plan = { mailboxes: [], messages: 1, requests: 2, requestsPerMinute: 4, hours: 0.5 };
    const progress = { event: 'mailbox-finished', account: 'main', address: 'ä@example.org' };
    const text = Buffer.from(`${JSON.stringify({ progress })}\n${JSON.stringify({ plan })}`);
    const socket = await asked(function* () {
      for (let at = 0; at < text.length; at += 7) yield text.subarray(at, at + 7);
    });
    const heard: unknown[] = [];
    expect(await sync(socket, heard)).toEqual({ plan });
    expect(heard).toEqual([progress]);
  });

  test('that a busy daemon does not give in two seconds is none, and the daemon is there', async () => {
    const socket = await listening(path.join(elsewhere, 's'));
    const answers = [askStatus(socket), requestSync(socket, VERSION), isListening(socket)];
    expect(await Promise.all(answers)).toEqual([null, false, true]);
  });

  test('that never ends a line is left', async () => {
    const piece = Buffer.alloc(1 << 20, ' ');
    const socket = await asked(function* () {
      for (let n = 0; n < 200; n += 1) yield piece;
    });
    await expect(sync(socket)).rejects.toMatchObject({ code: 'daemon-answer' });
    // A machine that takes more than two seconds for it has had no answer.
    const status = await askStatus(socket).catch((error: unknown) => error);
    expect([null, expect.objectContaining({ code: 'daemon-answer' })]).toContainEqual(status);
  });
});
