import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { mail, type Served, serve } from './client.ts';

let folder: string;
let served: Served | null = null;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mailkeep-seed-'));
});
afterEach(async () => {
  await served?.close();
  served = null;
  rmSync(folder, { recursive: true });
});

function write(name: string | Buffer, content: string): void {
  const path =
    typeof name === 'string'
      ? join(folder, name)
      : Buffer.concat([Buffer.from(`${folder}/`), name]);
  if (typeof path === 'string') mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content, 'latin1');
}

/** Sources, dates and flags of a folder of the first mailbox, by uid. */
async function contents(from: string[], path = 'INBOX') {
  served ??= await serve({ from: from.map((name) => join(folder, name)) });
  const base = `GET ${served.m}/folders/${encodeURIComponent(path)}/messages`;
  const { json } = await served.call(`${base}?sort=uid&perPage=100`);
  if (typeof json !== 'object' || json === null || !('data' in json) || !Array.isArray(json.data)) {
    throw new Error(`no list: ${JSON.stringify(json)}`);
  }
  const listed: { uid: number; date: string; flags: string[]; size: number }[] = json.data;
  return Promise.all(
    listed.map(async ({ uid, date, flags, size }) => {
      const source = await served?.call(`${base}/${uid}/source`);
      expect(source?.bytes.length).toBe(size);
      return { uid, date, flags, source: source?.bytes.toString('latin1') };
    }),
  );
}

describe('a folder that is no Maildir', () => {
  test('is walked in path order, every file a message byte for byte, whatever its name or first line', async () => {
    write('mail/b.eml', mail('b'));
    write('mail/a/z', 'From ada Thu Jan  1 00:00:00 2026\nSubject: x\n\n>From here\n');
    write('mail/a.mbox', 'From x\n\none\n\nFrom y\n\ntwo\n');
    write('mail/c/cur/1', 'no mail at all');
    write('mail/empty', '');
    write('mail/.hidden', 'hidden');
    write('mail/.git/config', 'hidden as well');
    symlinkSync(join(folder, 'mail/b.eml'), join(folder, 'mail/link'));
    write(Buffer.from('mail/\xff.eml', 'latin1'), 'a name that is no UTF-8');
    expect((await contents(['mail'])).map(({ uid, source }) => [uid, source])).toEqual([
      [1, 'From x\n\none\n\nFrom y\n\ntwo\n'],
      [2, 'From ada Thu Jan  1 00:00:00 2026\nSubject: x\n\n>From here\n'],
      [3, mail('b')],
      [4, 'no mail at all'],
      [5, ''],
      [6, 'a name that is no UTF-8'],
    ]);
  });

  test('takes received dates from the mail, never from the clock', async () => {
    write('mail/1', 'Date: Mon, 5 Jan 2026 10:00:00 +0100\n\n');
    write('mail/2', 'Subject: none\n\n');
    expect((await contents(['mail'])).map(({ date }) => date)).toEqual([
      '2026-01-05T09:00:00.000Z',
      '2000-01-01T00:00:00.000Z',
    ]);
  });

  test('several paths follow each other, and a file is one message', async () => {
    write('mail/1', 'one');
    write('single.eml', 'single');
    expect((await contents(['single.eml', 'mail'])).map(({ source }) => source)).toEqual([
      'single',
      'one',
    ]);
  });

  test('a file that changed after it was loaded is a 500, not other mail', async () => {
    write('mail/1', 'one');
    write('mail/2', 'x'.repeat(2_000_000));
    const reported: unknown[] = [];
    served = await serve({ from: [join(folder, 'mail')], report: (error) => reported.push(error) });
    write('mail/1', 'one more');
    write('mail/2', 'shorter');
    for (const uid of [1, 2]) {
      expect(
        await served.call(`GET ${served.m}/folders/INBOX/messages/${uid}/source`),
      ).toMatchObject({
        status: 500,
        json: { code: 'ERR_SOURCE_CHANGED' },
      });
    }
    expect(reported).toHaveLength(2);
  });

  test('a large file is sent whole, and in part when a fault says so', async () => {
    const large = Array.from({ length: 400_000 }, (_, n) => String(n)).join('\n');
    write('mail/large', large);
    served = await serve({ from: [join(folder, 'mail')] });
    const path = `GET ${served.m}/folders/INBOX/messages/1/source`;
    const whole = await served.call(path);
    expect(whole.headers['content-length']).toBe(String(large.length));
    expect(whole.bytes.toString('latin1') === large).toBe(true);
    served.sandbox.fault({ kind: 'cut', mode: 'silent', times: 1 });
    expect((await served.call(path)).bytes.length).toBe(Math.floor(large.length / 2));
  });
});

describe('a Maildir', () => {
  test('brings folders, flags and dates along', async () => {
    write('M/cur/1700000000.a.host:2,FRS', mail('one'));
    write('M/new/1700000001.b.host', mail('two'));
    write('M/cur/odd-name:2,PDTx', `Date: Mon, 5 Jan 2026 10:00:00 +0000\r\n${mail('three')}`);
    write('M/cur/.hidden', 'x');
    write('M/tmp/1700000002.c.host', 'unfinished');
    write('M/.Sent/cur/1700000003.d.host:2,S', mail('sent'));
    write('M/.Sent/new/.keep', '');
    write('M/.Lists.Gr&APwA3w-e/cur/1700000004.e.host:2,', mail('list'));
    write('M/.Lists.Gr&APwA3w-e/new/.keep', '');
    write('M/.not-a-maildir/file', 'x');
    write('M/dovecot-uidlist', 'x');
    expect(await contents(['M'])).toEqual([
      {
        uid: 1,
        date: '2023-11-14T22:13:20.000Z',
        flags: ['\\Answered', '\\Flagged', '\\Seen'],
        source: mail('one'),
      },
      { uid: 2, date: '2023-11-14T22:13:21.000Z', flags: [], source: mail('two') },
      {
        uid: 3,
        date: '2026-01-05T10:00:00.000Z',
        flags: ['$forwarded', '\\Deleted', '\\Draft'],
        source: `Date: Mon, 5 Jan 2026 10:00:00 +0000\r\n${mail('three')}`,
      },
    ]);
    expect(await contents(['M'], 'INBOX.Sent')).toMatchObject([{ source: mail('sent') }]);
    expect(await contents(['M'], 'INBOX.Lists.Grüße')).toMatchObject([{ source: mail('list') }]);
    const folders = await served?.call(`GET ${served.m}/folders`);
    expect(folders?.json).toMatchObject({ pagination: { total: 5 } });
  });
});

describe('an mbox', () => {
  test('is taken apart at its "From " lines, and unquoted', async () => {
    write(
      'a.mbox',
      [
        'From ada@example.org Thu Jan  1 12:30:00 2026',
        'Subject: one',
        '',
        '>From the beginning',
        '>>From quoted',
        '>from nothing',
        'From here it continues, since no empty line was before',
        '',
        'From bob Fri Jan  2 00:00:00 2026',
        'Subject: two',
        '',
        'two',
        '',
        '',
        'From -',
        'Date: Sat, 3 Jan 2026 00:00:00 +0000',
        '',
        'three',
      ].join('\n'),
    );
    expect(await contents(['a.mbox'])).toEqual([
      {
        uid: 1,
        date: '2026-01-01T12:30:00.000Z',
        flags: [],
        source:
          'Subject: one\n\nFrom the beginning\n>From quoted\n>from nothing\nFrom here it continues, since no empty line was before\n',
      },
      { uid: 2, date: '2026-01-02T00:00:00.000Z', flags: [], source: 'Subject: two\n\ntwo\n\n' },
      {
        uid: 3,
        date: '2026-01-03T00:00:00.000Z',
        flags: [],
        source: 'Date: Sat, 3 Jan 2026 00:00:00 +0000\n\nthree',
      },
    ]);
  });

  test('CRLF, empty messages and lines longer than a block come through', async () => {
    const long = 'x'.repeat(3_000_000);
    write(
      'b.mbox',
      [
        'From a Thu Jan  1 00:00:00 2026\r\nSubject: crlf\r\n\r\nbody\r\n\r\n',
        'From b Fri Jan  2 00:00:00 2026\n\n',
        `From c Sat Jan  3 00:00:00 2026\n\n${long}\n>From end\n\n`,
        'From d Sun Jan  4 00:00:00 2026\n\n',
      ].join(''),
    );
    expect((await contents(['b.mbox'])).map(({ source }) => source)).toEqual([
      'Subject: crlf\r\n\r\nbody\r\n',
      '',
      `\n${long}\nFrom end\n`,
      '',
    ]);
  });

  test('an empty file holds none', async () => {
    write('c.mbox', '');
    expect(await contents(['c.mbox'])).toEqual([]);
  });
});

describe('starting', () => {
  test('the same seed is the same origin, another one is another', async () => {
    const start = async (seed: number) => {
      const sandbox = await startSandbox({ seed, mail: { messages: 0 } });
      await sandbox.close();
      return { mailboxes: sandbox.mailboxes, tokens: sandbox.tokens };
    };
    expect(await start(3)).toEqual(await start(3));
    const [a, b] = [await start(3), await start(4)];
    expect(a.tokens.mailbox).not.toBe(b.tokens.mailbox);
    expect(a.mailboxes[0]?.resourceId).toMatch(/^AC/);
    expect(a.mailboxes[0]?.resourceId).not.toBe(b.mailboxes[0]?.resourceId);
  });

  test('generated mail fills all mailboxes, the same in memory and in a file', async () => {
    const hashes = await Promise.all(
      [{}, { stateFile: join(folder, 'state.sqlite') }].map(async (kept) => {
        const one = await serve({ ...kept, mail: { messages: 90 } });
        const hash = createHash('sha256');
        for (const { resourceId } of one.sandbox.mailboxes) {
          const m = `/api/v1/mailboxes/${resourceId}`;
          hash.update((await one.call(`GET ${m}/folders`)).bytes);
          const list = await one.call(`GET ${m}/folders/INBOX/messages?perPage=100`);
          hash.update(list.bytes);
          expect(list.status).toBe(200);
        }
        const source = await one.call(`GET ${one.m}/folders/INBOX/messages/1/source`);
        hash.update(source.bytes);
        expect(source.status).toBe(200);
        await one.close();
        return hash.digest('hex');
      }),
    );
    expect(hashes[0]).toBe(hashes[1]);
  });

  test('a state file is served again as it was left', async () => {
    const stateFile = join(folder, 'state.sqlite');
    write('mail/1', mail('one'));
    write('mail/2', mail('two'));
    const options = { from: [join(folder, 'mail')], stateFile };
    served = await serve(options);
    await served.call(`DELETE ${served.m}/folders/INBOX/messages/1`);
    await served.call(`POST ${served.m}/folders`, { body: { name: 'INBOX.New' } });
    const hook = await served.call(`POST ${served.m}/webhooks`, {
      body: { name: 'n', url: 'https://example.net/h', events: ['message.received'] },
    });
    expect(hook.status).toBe(201);
    const before = served.sandbox.mailboxes;
    await served.close();
    served = await serve(options);
    expect(served.sandbox.mailboxes).toEqual(before);
    expect((await served.call(`GET ${served.m}/folders/INBOX/messages`)).json).toMatchObject({
      data: [{ uid: 2, subject: 'two' }],
      pagination: { total: 1 },
    });
    expect((await served.call(`GET ${served.m}/folders`)).json).toMatchObject({
      pagination: { total: 5 },
    });
    expect((await served.call(`GET ${served.m}/webhooks`)).json).toMatchObject({
      pagination: { total: 1 },
    });
  });

  test('a path that is not there, and a port that is taken, are said', async () => {
    await expect(startSandbox({ from: [join(folder, 'none')] })).rejects.toMatchObject({
      code: 'sandbox-seed-unreadable',
      facts: { path: join(folder, 'none') },
    });
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const address = taken.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await expect(startSandbox({ port, mail: { messages: 0 } })).rejects.toMatchObject({
      code: 'sandbox-cannot-listen',
      facts: { port, reason: 'EADDRINUSE' },
    });
    await new Promise((resolve) => taken.close(resolve));
  });
});
