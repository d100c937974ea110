import { describe, expect, test } from 'vitest';
import { encodeMailbox } from '../../src/imap/response.ts';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { bothSides, letter, mirrored, SERVERS } from './mirrored.ts';
import { RawClient } from './raw-client.ts';

const NAMES = [
  ...['Case', 'case', 'CASE', 'caf\u00e9', 'cafe\u0301', 'blank ', ' blank', 'two  blanks'],
  ...['emoji \u{1f600}', '\u65e5\u672c\u8a9e', 'a & b', '&', 'quote " and \\', 'st*r', 'per%cent'],
  ...['a.b', 'a/b', '.', '..', '~', '#', '-', 'NIL', 'inbox/x', '[x]', '{5}', '(y)'],
  ...['x'.repeat(200), 'y'.repeat(255), '\u00fc'.repeat(60)],
];
/** What the servers do not accept below the prefix, by the name's first characters. */
const REFUSED = {
  Dovecot: ['a.b', '.', '..', '~', 'y'.repeat(20)],
  Cyrus: ['quote " and \\', 'per%cent', 'a/b', '.', '..', 'inbox/x', '{5}'],
};

describe.each(SERVERS)('$name', ({ name, without, start, prefix }) => {
  test.skipIf(without())(
    'mirrors folders under the names that the server gives them',
    async () => {
      const mirror = await mirrored(start);
      const client = await RawClient.login(mirror.server);
      const refused: string[] = [];
      for (const [n, one] of NAMES.entries()) {
        const wire = encodeMailbox(`${prefix}${one}`).replace(/["\\]/g, '\\$&');
        const { status } = await client.command(`CREATE "${wire}"`);
        if (!status.startsWith('OK')) refused.push(one.slice(0, 20));
        else expect((await client.append(wire, letter(n))).status).toMatch(/^OK/);
      }
      expect(refused).toEqual(REFUSED[name]);
      const { code, stderr } = await mirror.run('sync');
      expect(stderr).toBe('');
      expect(code).toBe(0);
      const { there, here } = await bothSides(mirror);
      expect(there.length).toBeGreaterThanOrEqual(NAMES.length - refused.length);
      expect(here).toEqual(there);
      client.close();
    },
    60_000,
  );
});

test.skipIf(withoutDovecot())(
  'a deleted folder that Dovecot still lists is a name without messages',
  async () => {
    const mirror = await mirrored(() => startDovecot());
    const client = await RawClient.login(mirror.server);
    for (const [n, folder] of ['INBOX', 'a', 'a/b'].entries()) {
      if (n > 0) await client.command(`CREATE "${folder}"`);
      await client.append(folder, letter(n));
    }
    expect(await mirror.run('sync')).toMatchObject({ code: 0 });
    const { here: before } = await bothSides(mirror);
    expect(before).toHaveLength(3);
    expect((await client.command('DELETE "a"')).status).toMatch(/^OK/);
    expect((await client.command('LIST "" "a"')).untagged).not.toMatch(/Noselect|NonExistent/);

    // Its messages count as deleted only when a second run does not find it either.
    const first = await mirror.run('sync', '--accept-endings', '--json');
    expect(first.code).toBe(4);
    expect(first.stderr).toContain('sync.held');
    expect((await bothSides(mirror)).here).toEqual(before);
    expect(await mirror.run('sync', '--accept-endings')).toMatchObject({ code: 0, stderr: '' });
    const { there, here } = await bothSides(mirror);
    expect(there).toHaveLength(2);
    expect(here).toEqual(there);
    // It can be created again.
    await client.command('CREATE "a"');
    await client.append('a', letter(4));
    expect(await mirror.run('sync')).toMatchObject({ code: 0, stderr: '' });
    const again = await bothSides(mirror);
    expect(again.there).toHaveLength(3);
    expect(again.here).toEqual(again.there);
    client.close();
  },
  60_000,
);

describe.each([
  {
    name: 'a public folder of Dovecot',
    without: withoutDovecot,
    foreign: 'Public/news',
    pattern: 'Public/*',
    start: () => startDovecot({ publicPrefix: 'Public/' }),
    share: ['CREATE "Public/news"'],
    sharedBy: 'anna',
  },
  {
    name: "another user's INBOX in Cyrus",
    without: withoutCyrus,
    foreign: 'user.bert',
    pattern: 'user.*',
    start: () => startCyrus({ users: ['anna', 'bert'] }),
    share: ['SETACL "INBOX" anna lrs'],
    sharedBy: 'bert',
  },
])('$name', ({ without, foreign, pattern, start, share, sharedBy }) => {
  test.skipIf(without()).each([
    [false, ['*']],
    [true, ['*', pattern]],
  ])('is mirrored: %s, with the folder rule %j', async (isMirrored, include) => {
    const mirror = await mirrored(start, { folders: { include } });
    const owner = await RawClient.login({ ...mirror.server, user: sharedBy });
    for (const command of share) expect((await owner.command(command)).status).toMatch(/^OK/);
    const inbox = sharedBy === 'anna' ? foreign : 'INBOX';
    expect((await owner.append(inbox, letter(1))).status).toMatch(/^OK/);
    const { code, stderr } = await mirror.run('sync');
    expect(stderr).toBe('');
    expect(code).toBe(0);
    const { there, here } = await bothSides(mirror);
    expect(there).toContainEqual(expect.stringContaining(`${foreign}/1 `));
    expect(here).toEqual(isMirrored ? there : []);
    // Without the rule, what is archived stays as it is.
    mirror.configure({});
    for (let run = 1; run <= 3; run += 1)
      expect((await mirror.run('sync', '--accept-endings')).code).toBe(0);
    expect((await bothSides(mirror)).here).toEqual(here);
    owner.close();
  });
});
