import { describe, expect, test } from 'vitest';
import { type Seeded, seeded } from '../bench/seeded.ts';
import { bothSides, letter, mirrored, SERVERS } from './mirrored.ts';
import type { ImapProxy } from './proxy.ts';
import { RawClient } from './raw-client.ts';

const HISTORIES = Number(process.env.MAILKEEP_IMAP_HISTORIES ?? 2);
const STEPS = 5;

/** Cuts the connection before one of the next commands, or before its answer. */
function planCut(random: Seeded, proxy: ImapProxy): void {
  const verbs = ['LIST', 'EXAMINE', 'UID SEARCH', 'UID FETCH'];
  const command = verbs[random.below(verbs.length)] ?? 'LIST';
  const sent = proxy.commands.filter(({ verb }) => verb === command).length;
  const nth = sent + 1 + (command === 'LIST' ? 0 : random.below(4));
  const fault = random.below(2) === 0 ? 'cut-before' : 'cut-before-answer';
  void proxy.plan({ do: fault, command, nth });
}

/** One change by another client. Refusals, such as of a folder that exists, do not matter. */
async function change(random: Seeded, client: RawClient, prefix: string, n: number) {
  const folders = ['INBOX', ...['Sent', 'Archive', 'A', 'B'].map((name) => `${prefix}${name}`)];
  const folder = folders[random.below(folders.length)] ?? 'INBOX';
  const other = folders[random.below(folders.length)] ?? 'INBOX';
  await client.command(`SELECT "${folder}"`);
  const uids = `${1 + random.below(12)}:${1 + random.below(12)}`;
  switch (random.below(9)) {
    case 0:
    case 1:
      return client.append(folder, letter(n), random.below(2) === 0 ? '(\\Seen) ' : '');
    case 2:
      return client.command(`UID MOVE ${uids} "${other}"`);
    case 3:
      return client.command(`UID COPY ${uids} "${other}"`);
    case 4:
      return client.command(
        `UID STORE ${uids} ${random.below(2) === 0 ? '+' : '-'}FLAGS (\\Flagged kw)`,
      );
    case 5:
      await client.command(`UID STORE ${uids} +FLAGS (\\Deleted)`);
      return client.command('EXPUNGE');
    case 6:
      return client.command(`DELETE "${prefix}B"`);
    case 7:
      return client.command(`RENAME "${prefix}A" "${prefix}C${n}"`);
    default:
      return client.command(`CREATE "${random.below(2) === 0 ? `${prefix}A` : `${prefix}B`}"`);
  }
}

describe.each(SERVERS)('$name', ({ name, without, start, prefix }) => {
  const skipped = without();

  test.skipIf(skipped)(
    'sync mirrors an account, and a quiet sync lists it once',
    async () => {
      const mirror = await mirrored(start);
      const client = await RawClient.login(mirror.server);
      for (let n = 1; n <= 120; n += 1)
        await client.append('INBOX', letter(n), n % 3 === 0 ? '(\\Seen kw) ' : '');
      await client.append(
        `${prefix}Sent`,
        letter(121) + 'x'.repeat(998).concat('\r\n').repeat(1_500),
      );
      const first = await mirror.run('sync');
      expect(first.stderr).toBe('');
      expect(first).toMatchObject({ code: 0 });
      expect(first.stdout).toContain('121 new');
      const { there, here } = await bothSides(mirror);
      expect(here).toEqual(there);

      await client.command('SELECT INBOX');
      await client.command(`UID MOVE 1:40 "${prefix}Archive"`);
      const sources = () => mirror.proxy.commands.filter(({ text }) => text.includes('BODY.PEEK'));
      const before = sources().length;
      expect(await mirror.run('sync', '--accept-endings')).toMatchObject({ code: 0 });
      // Moved messages are matched, and not downloaded again.
      expect(sources().length).toBe(before);
      const after = await bothSides(mirror);
      expect(after.here).toEqual(after.there);
      expect(await mirror.run('doctor')).toMatchObject({ code: 0 });
      expect(mirror.proxy.happened).toEqual([]);
      client.close();
    },
    60_000,
  );

  test.skipIf(skipped).each(Array.from({ length: HISTORIES }, (_, i) => i + 1))(
    'history %i ends in a mirror that equals the server',
    async (seed) => {
      const mirror = await mirrored(start);
      const random = seeded('imap history', name, seed);
      const client = await RawClient.login(mirror.server);
      let n = 0;
      for (let step = 0; step < STEPS; step += 1) {
        for (let i = 0; i < 12; i += 1) await change(random, client, prefix, ++n);
        if (step % 2 === 1) planCut(random, mirror.proxy);
        // Some changes happen while it runs.
        const running = mirror.run('sync');
        for (let i = 0; i < 4; i += 1) await change(random, client, prefix, ++n);
        await running;
      }
      for (let rest = 0; rest < 3; rest += 1)
        await mirror.run('sync', '--full', '--accept-endings');
      const { there, here } = await bothSides(mirror);
      expect(here).toEqual(there);
      // The server refused nothing: the proxy only cut connections.
      expect(mirror.proxy.happened.filter((fault) => fault.do === 'answer')).toEqual([]);
      client.close();
    },
    120_000,
  );

  test.skipIf(skipped)('a wrong password stops the account with code 6', async () => {
    const mirror = await mirrored(async () => ({ ...(await start()), password: 'wrong' }));
    const { code, stderr } = await mirror.run('sync');
    expect(code).toBe(6);
    expect(stderr).toContain('refused to sign in anna');
  });
});
