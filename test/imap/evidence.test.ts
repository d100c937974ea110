import { chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { generatedStock } from '../bench/source-stock.ts';
import { bothSides, letter, mirrored, SERVERS } from './mirrored.ts';
import { RawClient } from './raw-client.ts';
import type { MailServer } from './server.ts';

/** The mail of MAILKEEP_CORPUS and MAILKEEP_CASES; generated mail without them. */
const MAIL: readonly Buffer[] = readMail();

function readMail(): Buffer[] {
  const folders = [process.env.MAILKEEP_CORPUS, process.env.MAILKEEP_CASES].filter(
    (folder) => folder !== undefined,
  );
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
      .map((entry) => path.join(entry.parentPath, entry.name)),
  );
  if (files.length > 0) return files.map((file) => readFileSync(file));
  const stock = generatedStock(500, 20_261_130);
  return Array.from({ length: 500 }, (_, i) => stock.source(i));
}

/** Puts all mail into INBOX: into the Maildir of Dovecot, or as far as the server takes it. Returns how much. */
async function deliverAll(server: MailServer): Promise<number> {
  const client = await RawClient.login(server);
  const maildir = path.join(server.home, 'mail', server.user, 'mail');
  let count = 0;
  if (!existsSync(path.join(maildir, 'new'))) {
    // Over IMAP, every tenth message of many, or it would take minutes.
    const step = MAIL.length > 2_000 ? 10 : 1;
    for (let i = 0; i < MAIL.length; i += step) {
      const { status } = await client.append('INBOX', MAIL[i] ?? '');
      if (status.startsWith('OK')) count += 1;
    }
  } else {
    const { uid, gid } = statSync(maildir);
    for (const [i, message] of MAIL.entries()) {
      const file = path.join(maildir, 'new', `${1_700_000_000 + i}.M${i}.test`);
      writeFileSync(file, message);
      chownSync(file, uid, gid);
    }
    count = MAIL.length;
  }
  client.close();
  return count;
}

describe.each(SERVERS)('$name', ({ without, start, prefix }) => {
  const skipped = without();

  test.skipIf(skipped)(
    'a quiet sync of 50 folders sends one LIST, and opens none',
    async () => {
      const mirror = await mirrored(start);
      const client = await RawClient.login(mirror.server);
      for (let n = 1; n <= 50; n += 1) {
        await client.command(`CREATE "${prefix}folder ${n}"`);
        for (let i = n % 3; i > 0; i -= 1)
          await client.append(`${prefix}folder ${n}`, letter(3 * n + i));
      }
      await client.append('INBOX', letter(1));
      client.close();
      expect(await mirror.run('sync')).toMatchObject({ code: 0 });
      for (let run = 0; run < 2; run += 1) {
        const sent = mirror.proxy.commands.length;
        const { code, stdout } = await mirror.run('sync', '--json');
        expect(code).toBe(0);
        const sum = { complete: true, originTotal: 52, stored: 52 };
        expect(JSON.parse(stdout)).toMatchObject({ mailboxes: [{ comparison: 'all' }], sum });
        const verbs = mirror.proxy.commands.slice(sent).map(({ verb }) => verb);
        expect(verbs.filter((verb) => verb === 'LIST')).toHaveLength(1);
        const others = verbs.filter((verb) => /EXAMINE|STATUS|UID|NOOP/.test(verb));
        expect(others).toEqual([]);
      }
      const { there, here } = await bothSides(mirror);
      expect(here).toEqual(there);
    },
    120_000,
  );

  test.skipIf(skipped)(
    'a new UIDVALIDITY downloads only what cannot be told apart, and nothing with ids',
    async () => {
      const mirror = await mirrored(start);
      const client = await RawClient.login(mirror.server);
      const folder = `"${prefix}A"`;
      const aside = `"${prefix}B"`;
      await client.command(`CREATE ${folder}`);
      for (let n = 1; n <= 70; n += 1) await client.append(`${prefix}A`, letter(n));
      const twins = '() "01-Jan-2026 00:00:00 +0000" ';
      for (let n = 1; n <= 2; n += 1) await client.append(`${prefix}A`, letter(71), twins);
      await client.append(`${prefix}A`, 'Subject: no Message-ID\r\n\r\nx\r\n');
      expect(await mirror.run('sync')).toMatchObject({ code: 0 });
      for (const command of [
        ...[`SELECT ${folder}`, `CREATE ${aside}`, `UID COPY 1:* ${aside}`, 'UNSELECT'],
        ...[`DELETE ${folder}`, `CREATE ${folder}`, `SELECT ${aside}`, `UID MOVE 1:* ${folder}`],
        ...['UNSELECT', `DELETE ${aside}`],
      ])
        expect((await client.command(command)).status, command).toMatch(/^OK/);
      const { untagged } = await client.command('CAPABILITY');
      client.close();
      const sent = mirror.proxy.commands.length;
      const { code, stdout } = await mirror.run('sync', '--json');
      expect(code).toBe(0);
      const uids = mirror.proxy.commands
        .slice(sent)
        .flatMap(({ text }) => /^UID FETCH (\S+) .*BODY\.PEEK/.exec(text)?.[1] ?? []);
      const hasIds = untagged.includes('OBJECTID');
      expect(uids).toEqual(hasIds ? [] : ['71:73']);
      const relinked = hasIds ? 73 : 70;
      expect(JSON.parse(stdout)).toMatchObject({ mailboxes: [{ relinked, held: 0 }] });
      const { there, here } = await bothSides(mirror);
      expect(here).toEqual(there);
    },
    60_000,
  );

  test.skipIf(skipped)(
    'the first sync of all test mail equals what imaplib reads, byte for byte',
    async () => {
      const mirror = await mirrored(start);
      const count = await deliverAll(mirror.server);
      const { code, stderr } = await mirror.run('sync', '--quiet');
      expect([code, stderr]).toEqual([0, '']);
      const { there, here } = await bothSides(mirror);
      expect(here).toHaveLength(count);
      expect(count).toBeGreaterThan(100);
      expect(here).toEqual(there);
      // Reads every byte again, and compares it with its hash.
      expect(await mirror.run('verify')).toMatchObject({ code: 0 });
      expect(mirror.proxy.happened).toEqual([]);
    },
    300_000,
  );
});
