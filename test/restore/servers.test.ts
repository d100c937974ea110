import { describe, expect, onTestFinished, test } from 'vitest';
import { type Alteration, sentForm } from '../../src/transfer/restore-comparison.ts';
import { HARD_SOURCES, StoredArchive, sampleSources, sha256 } from '../export/stored-archive.ts';
import { startCyrus, withoutCyrus } from '../imap/cyrus.ts';
import { type DovecotOptions, startDovecot, withoutDovecot } from '../imap/dovecot.ts';
import type { Fault } from '../imap/faults.ts';
import { ImapProxy } from '../imap/proxy.ts';
import { mailBelow } from '../imap/read-back.ts';
import type { MailServer } from '../imap/server.ts';
import { asClient, Restoring } from './restoring.ts';

const noDovecot = withoutDovecot();
const noCyrus = withoutCyrus();

/** Nothing else may ever be sent (RFC 9051, 6). */
const ALLOWED: ReadonlySet<string> = new Set([
  ...['CAPABILITY', 'ID', 'NAMESPACE', 'ENABLE', 'AUTHENTICATE', 'LOGIN', 'NOOP', 'LOGOUT'],
  ...['LIST', 'LSUB', 'STATUS', 'SELECT', 'FETCH', 'UID FETCH', 'UID SEARCH', 'GETQUOTAROOT'],
  ...['CREATE', 'SUBSCRIBE', 'APPEND'],
]);

/** Messages of the corpus that go out and come back: more by hand. */
const MAILS = Number(process.env.MAILKEEP_RESTORE_MAILS ?? '80');
const FOLDERS = ['INBOX', 'Büro', 'Büro/2025', '日本語 & more', 'a.b', 'A/b.c'];

/** Cyrus refuses messages with NUL, without a header and without bytes; Dovecot only the last. */
const KNOWN_REFUSALS = /NUL characters|invalid header|zero/i;
const OF_BYTES: ReadonlySet<Alteration> = new Set([
  'carriage-returns',
  'nul',
  'header-bytes',
  'bytes',
]);

/** Sent as binary (RFC 3516), Dovecot would encode the part again. */
const BINARY_PART = Buffer.from(
  'Content-Type: multipart/mixed; boundary="1"\nMIME-Version: 1.0\n\n--1\n' +
    'Content-Transfer-Encoding: binary\nContent-Type: text/plain; charset=utf-16le\n\nT\0e\0x\0t\0\n\0\n--1--',
);

const SERVERS = [
  { name: 'Dovecot', separator: '/', skipped: noDovecot, start: startDovecot },
  { name: 'Dovecot', separator: '.', skipped: noDovecot, start: startDovecot },
  { name: 'Cyrus', separator: '/', skipped: noCyrus, start: startCyrus },
  { name: 'Cyrus', separator: '.', skipped: noCyrus, start: startCyrus },
] as const;

async function kept<S extends MailServer>(server: S): Promise<S> {
  onTestFinished(() => server.stop());
  return server;
}

async function serve(options: DovecotOptions = {}): Promise<MailServer> {
  return kept(await startDovecot({ specialFolders: false, ...options }));
}

async function stored(
  letters: Parameters<StoredArchive['store']>[0],
  options: Parameters<StoredArchive['store']>[1] = {},
): Promise<StoredArchive> {
  const archive = await StoredArchive.create();
  onTestFinished(() => archive.remove());
  await archive.store(letters, { delimiter: '/', ...options });
  return archive;
}

function restoring(archive: StoredArchive, server: MailServer): Restoring {
  const user = new Restoring(archive, server);
  onTestFinished(() => user.remove());
  return user;
}

async function proxied(to: MailServer, faults: readonly Fault[] = []): Promise<ImapProxy> {
  const proxy = await ImapProxy.start({ to, faults });
  onTestFinished(() => proxy.stop());
  return proxy;
}

function letter(number: number, more: object = {}) {
  const id = `<${number}@example.org>`;
  const source = Buffer.from(
    `Message-ID: ${id}\r\nSubject: Letter ${number}\r\n\r\n${'x'.repeat(number * 10)}\r\n`,
  );
  return { folder: 'INBOX', source, messageId: id, ...more };
}

describe.each(SERVERS)('a restore to $name, with $separator', ({ separator, skipped, start }) => {
  test.skipIf(skipped)(
    'puts every message there, and only appends',
    { timeout: 600_000 },
    async () => {
      const server = await kept(await start({ separator }));
      const sources = [...sampleSources(MAILS), BINARY_PART];
      const letters = sources.map((source, i) => ({
        folder: FOLDERS[i % FOLDERS.length] ?? 'INBOX',
        source,
        flags: [i % 2 === 0 ? '\\Seen' : '\\Flagged', ...(i % 3 === 0 ? ['$Forwarded'] : [])],
        date: new Date(Date.UTC(2020, 0, 1) + i * 61_000).toISOString(),
      }));
      const archive = await stored(letters);
      const proxy = await proxied(server);
      const user = restoring(archive, server);
      const result = await user.run(proxy.port);
      expect(proxy.verbs.filter((verb) => !ALLOWED.has(verb))).toEqual([]);
      const appends = proxy.commands.filter(({ verb }) => verb === 'APPEND').length;
      // Small messages go together (MULTIAPPEND); one by one where the server refuses one of them.
      expect(appends).toBeLessThan(letters.length / 2);
      expect([result.planned, result.appended + result.refused]).toEqual([
        letters.length,
        letters.length,
      ]);
      expect([result.lost, result.doubled, result.looked.compared]).toEqual([
        [],
        [],
        result.appended,
      ]);
      // Each message that is refused has the server's words, and one of the reasons that are known.
      for (const { reason, text } of result.failures) {
        expect(reason).toBe('server');
        expect(text).toMatch(KNOWN_REFUSALS);
      }
      const changed = result.alterations.filter(({ reasons }) =>
        reasons.some((reason) => reason !== 'line-endings'),
      );
      // What comes from MAILKEEP_CORPUS may be as odd as what is made for this.
      const mostOdd = 1 + HARD_SOURCES.length + Math.ceil(MAILS / 4);
      expect(changed.length + result.refused).toBeLessThanOrEqual(mostOdd);

      const there = (await mailBelow(server)).filter(({ folder }) => folder.includes('Restored'));
      expect(there).toHaveLength(result.appended);
      const wanted = new Map<string, (typeof letters)[number][]>();
      const noted = (hash: string, levels: readonly string[], date: string): string =>
        [hash, date, ...plain(levels)].join('/');
      for (const one of letters) {
        const date = one.date.replace('.000Z', 'Z');
        const key = noted(sha256(sentForm(one.source).content), one.folder.split('/'), date);
        wanted.set(key, [...(wanted.get(key) ?? []), one]);
      }
      let exact = 0;
      for (const { folder, sha256: hash, flags, date } of there) {
        const [, , ...levels] = folder.slice(folder.indexOf('Restored')).split(separator);
        const same = wanted.get(noted(hash, levels, date))?.shift();
        if (same === undefined) continue;
        exact += 1;
        expect(flags).toEqual(expect.arrayContaining(same.flags));
      }
      expect(there.length - exact).toBe(
        changed.filter(({ reasons }) => reasons.some((reason) => OF_BYTES.has(reason))).length,
      );

      const again = await user.run(proxy.port);
      expect([again.appended, again.present]).toEqual([0, result.appended]);
    },
  );
});

/** Only Cyrus with / takes . in names. */
function plain(levels: readonly string[]): string[] {
  return levels.map((level) => level.replaceAll('.', '_'));
}

describe.skipIf(noDovecot)('a restore', () => {
  test('plans without sending, and counts what is there already', async () => {
    const server = await serve();
    const archive = await stored([letter(1), letter(2), letter(2, { uid: 9 })]);
    const user = restoring(archive, server);
    const proxy = await proxied(server);
    const plan = await user.run(proxy.port, { dryRun: true, journal: undefined });
    expect(plan).toMatchObject({ planned: 3, due: 3, appended: 0, plan: null, rate: null });
    expect(plan.folders).toMatchObject([{ folder: 'INBOX', to: 'Restored/2026-03-01/INBOX' }]);
    expect(proxy.verbs).not.toContain('APPEND');
    expect(proxy.verbs).not.toContain('CREATE');
    await user.run(proxy.port);
    // Two places of one message are two messages.
    expect(await mailBelow(server)).toHaveLength(3);
    const next = await user.run(proxy.port, { dryRun: true });
    expect(next).toMatchObject({ planned: 3, due: 0, present: 3 });
    expect(next.rate).not.toBeNull();
  });

  test('in place, uses the folders that the server has for a purpose', async () => {
    const server = await serve({ specialFolders: true });
    const archive = await stored(
      [letter(1), letter(2, { folder: 'Gesendet' }), letter(3, { folder: 'Projects' })],
      { specialUse: { Gesendet: '\\Sent' } },
    );
    const user = restoring(archive, server);
    const result = await user.run(server.port, { destination: { kind: 'in-place' } });
    expect(result.folders.map(({ to }) => to)).toEqual(['INBOX', 'Sent', 'Projects']);
    expect((await mailBelow(server)).map(({ folder }) => folder).sort()).toEqual([
      'INBOX',
      'Projects',
      'Sent',
    ]);
  });

  test('replaces what the server refuses in names, also on a server with another separator', async () => {
    const letters = ['a.b', 'a_b', 'x/y', 'x.y'].map((folder, i) => letter(i + 1, { folder }));
    const archive = await stored(letters);
    const slash = await serve();
    const one = await restoring(archive, slash).run(slash.port, {
      destination: { kind: 'into', levels: ['R'] },
    });
    expect(one.folders.map(({ to, replaced, numbered }) => [to, replaced, numbered])).toEqual([
      ['R/a_b (2)', true, true],
      ['R/a_b', false, false],
      ['R/x/y', false, false],
      ['R/x_y', true, false],
    ]);
    const dot = await serve({ separator: '.' });
    const other = await restoring(archive, dot).run(dot.port, {
      destination: { kind: 'into', levels: ['R'] },
    });
    expect(other.folders.map(({ to }) => to)).toEqual(['R.a_b (2)', 'R.a_b', 'R.x.y', 'R.x_y']);
    expect([one.refused, other.refused, other.appended]).toEqual([0, 0, 4]);
  });

  test('leaves out only what it has to, where messages are too large or the quota is full', async () => {
    const small = [letter(1), letter(2, { folder: 'Work' }), letter(3)];
    const big = {
      ...letter(4),
      source: Buffer.concat([letter(4).source, Buffer.alloc(80_000, 'x\r\n')]),
    };
    const limited = await serve({ maxMessageBytes: 20_000 });
    const archive = await stored([...small, big]);
    const tooLarge = await restoring(archive, limited).run(limited.port);
    expect(tooLarge).toMatchObject({ appended: 3, refused: 1, refusals: { 'append-limit': 1 } });

    const full = await serve({ quota: { bytes: 60_000 } });
    const overQuota = await restoring(archive, full).run(full.port);
    expect(overQuota).toMatchObject({
      appended: 3,
      refused: 1,
      refusals: { quota: 1 },
      expected: { quota: 1 },
    });
  });

  test('offers one message to a folder that takes none', async () => {
    const server = await serve({ readOnly: ['Work'] });
    const proxy = await proxied(server);
    const archive = await stored([
      letter(1),
      ...[2, 3, 4].map((number) => letter(number, { folder: 'Work' })),
    ]);
    const result = await restoring(archive, server).run(proxy.port, {
      destination: { kind: 'in-place' },
    });
    expect(result.folders).toMatchObject([
      { folder: 'INBOX', appended: 1, refused: 0 },
      { folder: 'Work', appended: 0, refused: 3 },
    ]);
    expect(result.refusals).toEqual({ folder: 3 });
    const offered = proxy.commands.filter(({ text }) => /^APPEND "?Work/.test(text));
    expect(offered).toHaveLength(1);
  });

  test('leaves out the flags of servers and of removal, and names what is not kept', async () => {
    const server = await serve();
    const archive = await stored([
      letter(1, { flags: ['\\Deleted', '\\Recent', '\\Seen'] }),
      letter(2, { flags: ['k'.repeat(51), 'plain'] }),
      letter(3, { flags: ['a b', 'grün'] }),
      letter(4, { date: '1901-01-01T00:00:00.000Z' }),
      letter(5, { date: '2050-01-01T00:00:00.000Z' }),
    ]);
    const user = restoring(archive, server);
    // What the folder keeps is known once it is there.
    const plan = await user.run(server.port, { dryRun: true });
    expect(plan.leftOut).toEqual({ recent: 1, deleted: 1 });
    expect(plan.altered).toEqual({ messages: 3, reasons: { flags: 1, date: 2 } });
    const result = await user.run(server.port);
    expect(result.leftOut).toEqual({ recent: 1, deleted: 1 });
    expect(result.altered).toEqual({ messages: 4, reasons: { flags: 2, date: 2 } });
    const [first] = (await mailBelow(server)).map(({ date }) => date).sort();
    // Of a date in the future, Dovecot makes the present.
    expect(first).toBe('1970-01-02T00:00:00Z');
  });

  test('a folder that was made again since is restored again', async () => {
    const server = await serve();
    const archive = await stored([letter(1), letter(2), letter(3, { folder: 'Work' })]);
    const user = restoring(archive, server);
    const stop = new AbortController();
    const first = await user.run(server.port, {
      jobs: 1,
      signal: stop.signal,
      onProgress: (progress) => {
        if (progress.step === 'sending' && progress.done === 2) stop.abort();
      },
    });
    expect(first.interrupted).toBe(true);
    await asClient(server, async (client) => {
      for (const folder of first.folders)
        if (folder.to !== null && folder.appended > 0) {
          await client.mailboxDelete(folder.to);
          await client.mailboxCreate(folder.to);
        }
    });
    const second = await user.run(server.port);
    expect(second.continued).toBe(true);
    expect(second.folders.some(({ remade }) => remade > 0)).toBe(true);
    expect(await mailBelow(server)).toHaveLength(3);
  });

  test('an interruption ends a sign-in that is not answered', async () => {
    const server = await serve();
    const archive = await stored([letter(1), letter(2), letter(3, { folder: 'A' })]);
    const user = restoring(archive, server);
    for (const nth of [1, 2]) {
      const held: Fault = { do: 'hold-command', command: 'AUTHENTICATE', nth };
      const proxy = await proxied(server, [{ do: 'cut-before', command: 'APPEND', nth: 1 }, held]);
      const stop = new AbortController();
      void proxy.until(held).then(() => stop.abort());
      const run = user.run(proxy.port, { jobs: 1, signal: stop.signal });
      if (nth === 1) await expect(run).rejects.toMatchObject({ name: 'AbortError' });
      else expect(await run).toMatchObject({ interrupted: true, appended: 0, ended: null });
    }
    expect(await user.run(server.port)).toMatchObject({ appended: 3, continued: true });
  });

  test('names a wrong password, an unknown port and too many connections', async () => {
    const server = await serve();
    const archive = await stored([
      letter(1),
      letter(2, { folder: 'A' }),
      letter(3, { folder: 'B' }),
    ]);
    const wrong = new Restoring(archive, { user: server.user, password: 'wrong' });
    onTestFinished(() => wrong.remove());
    await expect(wrong.run(server.port)).rejects.toMatchObject({
      code: 'restore-login-refused',
      family: 'auth',
    });
    const user = restoring(archive, server);
    await expect(user.run(1)).rejects.toMatchObject({ code: 'restore-unreachable' });
    const proxy = await proxied(server, [
      { do: 'bye', connection: 2, text: 'Too many connections' },
      { do: 'refuse', connection: 3 },
    ]);
    const result = await user.run(proxy.port, { jobs: 3 });
    expect(result).toMatchObject({ appended: 3, connections: 1 });
  });
});
