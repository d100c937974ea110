import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { forEachConcurrent } from '../../src/core/concurrency.ts';
import { encodeMailbox } from '../../src/imap/response.ts';
import type { FetchedSource, Origin } from '../../src/sync/ports.ts';
import { openAccount, type TestAccount } from './account.ts';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import { type ReadMessage, readBack } from './read-back.ts';
import type { MailServer } from './server.ts';

const signal = new AbortController().signal;
const PER_PAGE = 100;

const SERVERS: readonly {
  readonly name: string;
  readonly without: () => boolean;
  readonly start: () => Promise<MailServer>;
  readonly prefix: string;
  readonly delimiter: string;
}[] = [
  {
    name: 'Dovecot, maildir, /',
    without: withoutDovecot,
    start: () => startDovecot({ separator: '/', quota: { bytes: 50_000_000 } }),
    prefix: '',
    delimiter: '/',
  },
  {
    name: 'Dovecot, sdbox, .',
    without: withoutDovecot,
    start: () => startDovecot({ separator: '.', mailLocation: 'sdbox:~/box' }),
    prefix: '',
    delimiter: '.',
  },
  {
    name: 'Dovecot, maildir, below INBOX.',
    without: withoutDovecot,
    start: () => startDovecot({ separator: '.', prefix: 'INBOX.' }),
    prefix: 'INBOX.',
    delimiter: '.',
  },
  {
    name: 'Cyrus, .',
    without: withoutCyrus,
    start: () => startCyrus({ separator: '.', quota: { bytes: 50_000_000 } }),
    prefix: 'INBOX.',
    delimiter: '.',
  },
  {
    name: 'Cyrus, /',
    without: withoutCyrus,
    start: () => startCyrus({ separator: '/', altNamespace: true }),
    prefix: '',
    delimiter: '/',
  },
];

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function serve(start: () => Promise<MailServer>): Promise<MailServer> {
  const server = await start();
  closing.push(() => server.stop());
  return server;
}

async function throughProxy(server: MailServer): Promise<TestAccount & { proxy: ImapProxy }> {
  const proxy = await ImapProxy.start({ to: server, readOnly: true });
  closing.push(() => proxy.stop());
  const account = openAccount({ port: proxy.port, user: server.user, password: server.password });
  closing.push(() => account.connections.close());
  return { ...account, proxy };
}

function letter(n: number, extra = '', body = 'body\r\n'): Buffer {
  const head = `From: "Ada ${n}" <ada@example.org>\r\nTo: b@example.org\r\nMessage-ID: <${n}@example.org>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe_${n}?=\r\n${extra}\r\n`;
  return Buffer.from(head + body);
}

async function sha256(source: FetchedSource): Promise<string> {
  const digest = createHash('sha256');
  if (source.kind === 'buffer') return digest.update(source.bytes).digest('hex');
  for await (const chunk of createReadStream(source.path)) digest.update(chunk);
  await rm(source.path);
  const hex = digest.digest('hex');
  expect(source.sha256).toBe(hex);
  return hex;
}

/** Reads a folder page by page, and every source. */
async function readFolder(origin: Origin, folder: string): Promise<ReadMessage[]> {
  const [mailbox] = await origin.mailboxes(signal);
  const at = { host: origin.host, mailbox: mailbox?.resourceId ?? '', folder };
  const messages: ReadMessage[] = [];
  for (let page = 1; ; page += 1) {
    const question = { page, perPage: PER_PAGE, order: 'ascending' } as const;
    const { items, total } = await origin.list(at, question, signal);
    await forEachConcurrent(items, 8, async ({ uid, size, date, flags }) => {
      const source = await origin.source(at, uid, signal);
      messages.push({ uid, size, date, flags, sha256: await sha256(source) });
    });
    if (page * PER_PAGE >= total) return messages.sort((a, b) => a.uid - b.uid);
  }
}

describe.each(SERVERS)('$name', ({ without, start, prefix, delimiter }) => {
  const skipped = without();

  test.skipIf(skipped)(
    'reads every folder and message as imaplib does, and only reads',
    async () => {
      const server = await serve(start);
      const client = await RawClient.login(server);
      const folder = `${prefix}Entwürfe & more${delimiter}日本語 😀`;
      for (const path of [`${prefix}Entwürfe & more`, folder, `${prefix}empty`]) {
        const { status } = await client.command(`CREATE "${encodeMailbox(path)}"`);
        expect(status).toMatch(/^OK/);
      }
      for (let n = 1; n <= 230; n += 1)
        await client.append('INBOX', letter(n), n % 3 === 0 ? '(\\Seen kw) ' : '');
      const large = 'x'.repeat(998).concat('\r\n');
      await client.append('INBOX', letter(1001, '', large.repeat(3_500)));
      // Exactly one piece: 1 MiB.
      const head = letter(1002).length - 'body\r\n'.length;
      await client.append('INBOX', letter(1002, '', 'y'.repeat(1024 * 1024 - head)));
      const raw = encodeMailbox(folder);
      await client.append(raw, letter(3), '(\\Flagged $Forwarded) " 3-Feb-2011 04:05:06 +0530" ');
      await client.append(raw, Buffer.concat([letter(4), Buffer.from([0xe4, 0xff, 0x80, 13, 10])]));
      await client.append(raw, letter(5, `X-Long: ${'a'.repeat(900)}\r\n`));
      await client.command(`SELECT "INBOX"`);
      await client.command('UID STORE 7,9:11,100 +FLAGS (\\Deleted)');
      await client.command('EXPUNGE');
      client.close();

      const { origin, proxy } = await throughProxy(server);
      const { folders, complete, states } = await origin.folders('', signal);
      const expected = await readBack(server);
      expect(complete).toBe(true);
      expect(folders.map((one) => one.path).sort()).toEqual(
        expected.map((one) => one.folder).sort(),
      );
      for (const { folder: path, messages, uidvalidity, delimiter: by } of expected) {
        const listed = folders.find((one) => one.path === path);
        expect(listed).toMatchObject({ messageCount: messages.length, delimiter: by });
        expect(listed?.unreadCount).toBe(
          messages.filter((m) => !m.flags.includes('\\Seen')).length,
        );
        expect(states?.get(path)?.uidValidity).toBe(String(uidvalidity));
        expect(await readFolder(origin, path)).toEqual(messages);
      }
      expect(folders.find((one) => one.path === folder)?.name).toBe('日本語 😀');
      expect(folders.find(({ specialUse }) => specialUse === '\\Sent')?.name).toBe('Sent');
      // Every command was on the list of commands that only read.
      expect(proxy.happened).toEqual([]);
      expect(proxy.commands.filter(({ verb }) => verb === 'LIST')).toHaveLength(1);
      expect(proxy.verbs).not.toContain('STATUS');
    },
  );

  test.skipIf(skipped)('lists pages by uid in both orders, and searches', async () => {
    const server = await serve(start);
    const client = await RawClient.login(server);
    for (let n = 1; n <= 25; n += 1)
      await client.append('INBOX', letter(n), n <= 5 ? '(\\Seen) ' : '(\\Answered) ');
    const { origin, proxy } = await throughProxy(server);
    const at = { host: origin.host, mailbox: 'm', folder: 'INBOX' };
    const uidsOf = (page: { items: readonly { uid: number }[] }) =>
      page.items.map(({ uid }) => uid);
    const newest = await origin.list(at, { page: 1, perPage: 10, order: 'descending' }, signal);
    expect(uidsOf(newest)).toEqual([25, 24, 23, 22, 21, 20, 19, 18, 17, 16]);
    expect(newest).toMatchObject({ total: 25, uidValidity: expect.stringMatching(/^\d+$/) });
    expect(newest.items[0]).toMatchObject({
      subject: 'Grüße 25',
      from: { name: 'Ada 25', address: 'ada@example.org' },
      to: [{ name: '', address: 'b@example.org' }],
      messageId: '<25@example.org>',
    });
    const third = await origin.list(at, { page: 3, perPage: 10, order: 'descending' }, signal);
    expect(uidsOf(third)).toEqual([5, 4, 3, 2, 1]);

    // Deleted by somebody else while pages are read: neither shifts nor hides a message.
    await client.command('SELECT INBOX');
    await client.command('UID STORE 3,12,20 +FLAGS.SILENT (\\Deleted)');
    await client.command('EXPUNGE');
    const range = { uids: '10:*', perPage: 5, order: 'ascending' } as const;
    // A session that was opened before may still show what is gone, but nothing moves to another place.
    const early = await origin.search(at, range, signal);
    expect(uidsOf(early).filter((uid) => uid !== 12)).toEqual(
      [10, 11, 13, 14, 15].slice(0, uidsOf(early).includes(12) ? 4 : 5),
    );
    await origin.list(at, { page: 1, perPage: 10, order: 'descending' }, signal);
    const page = await origin.search(at, range, signal);
    expect(uidsOf(page)).toEqual([10, 11, 13, 14, 15]);
    expect(page.total).toBe(14);
    const named = { uids: '2,3,4,20,99', perPage: 100, order: 'ascending' } as const;
    expect(uidsOf(await origin.search(at, named, signal))).toEqual([2, 4]);
    expect(uidsOf(await origin.search(at, { ...named, fresh: true }, signal))).toEqual([2, 4]);
    const seen = { uids: '1:*', perPage: 3, order: 'descending', flag: '\\Seen' } as const;
    const found = await origin.search(at, seen, signal);
    expect([uidsOf(found), found.total]).toEqual([[5, 4, 2], 4]);
    const today = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    const recent = { uids: '1:*', perPage: 1, order: 'ascending', since: today } as const;
    expect((await origin.search(at, recent, signal)).total).toBe(22);
    expect((await origin.uids?.(at, signal))?.uids).toHaveLength(22);
    await expect(origin.source(at, 3, signal)).rejects.toMatchObject({ code: 'imap.message-gone' });
    expect(proxy.happened).toEqual([]);
    client.close();
  });

  test.skipIf(skipped)(
    'returns changed flags by modification sequence, and the quota',
    async () => {
      const server = await serve(start);
      const client = await RawClient.login(server);
      for (let n = 1; n <= 5; n += 1) await client.append('INBOX', letter(n));
      const { origin } = await throughProxy(server);
      const at = { host: origin.host, mailbox: 'm', folder: 'INBOX' };
      const before = await origin.uids?.(at, signal);
      if (before === undefined) throw new Error('no uids');
      const { uidValidity, highestModSeq: modSeq } = before;
      expect(modSeq).toMatch(/^\d+$/);
      await client.command('SELECT INBOX');
      await client.command('UID STORE 2 +FLAGS.SILENT (\\Seen)');
      await client.append('INBOX', letter(6));
      const since = { uidValidity, modSeq: modSeq ?? '' };
      const changed = await origin.changedSince?.(at, since, signal);
      expect(changed?.changes.map(({ uid, flags }) => [uid, flags])).toEqual([
        [2, ['\\Seen']],
        [6, []],
      ]);
      const again = { ...since, modSeq: changed?.highestModSeq ?? '' };
      expect((await origin.changedSince?.(at, again, signal))?.changes).toEqual([]);
      expect(await origin.changedSince?.(at, { ...since, uidValidity: '1' }, signal)).toBeNull();
      for (const { name, usage, limit } of await origin.quota('', signal)) {
        expect(['STORAGE', 'MESSAGE']).toContain(name);
        expect(usage).toBeGreaterThanOrEqual(0);
        if (name === 'STORAGE' && limit !== null) expect(limit).toBeGreaterThan(49_000_000);
      }
      client.close();
    },
  );

  test.skipIf(skipped)('notices that a folder was deleted and created again', async () => {
    const server = await serve(start);
    const client = await RawClient.login(server);
    const folder = `${prefix}again`;
    await client.command(`CREATE "${folder}"`);
    await client.append(folder, letter(1));
    const { origin } = await throughProxy(server);
    const at = { host: origin.host, mailbox: 'm', folder };
    const newest = { page: 1, perPage: 10, order: 'descending' } as const;
    const before = await origin.list(at, newest, signal);
    await client.command(`DELETE "${folder}"`);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await client.command(`CREATE "${folder}"`);
    await client.append(folder, letter(2));
    const named = { uids: '1,2', perPage: 10, order: 'ascending' } as const;
    await expect(origin.search(at, named, signal)).rejects.toMatchObject({
      code: 'imap.renumbered',
    });
    await expect(origin.list(at, newest, signal)).rejects.toMatchObject({
      code: 'imap.renumbered',
    });
    const { states } = await origin.folders('', signal);
    const after = await origin.list(at, newest, signal);
    expect(after.uidValidity).toBe(states?.get(folder)?.uidValidity);
    expect(after.uidValidity).not.toBe(before.uidValidity);
    expect(after.items.map(({ messageId }) => messageId)).toEqual(['<2@example.org>']);
    client.close();
  });
});
