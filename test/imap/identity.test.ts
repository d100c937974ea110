import { describe, expect, test } from 'vitest';
import { bothSides, letter, type Mirrored, mirrored, SERVERS } from './mirrored.ts';
import { RawClient } from './raw-client.ts';

const READING = ['LIST', 'STATUS', 'EXAMINE', 'UID SEARCH', 'UID FETCH'];

/** Runs a sync, and returns its commands that read folders. */
async function commandsOfSync({ proxy, run }: Mirrored, ...options: readonly string[]) {
  const from = proxy.commands.length;
  const { code, stderr } = await run('sync', ...options);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return proxy.commands.slice(from).filter(({ verb }) => READING.includes(verb));
}

/** The messages that these commands downloaded. */
function downloads(commands: readonly { readonly text: string }[]): string[] {
  return commands.flatMap(({ text }) => (text.includes('BODY.PEEK') ? [text] : []));
}

async function succeed(client: RawClient, ...commands: readonly string[]): Promise<void> {
  for (const command of commands) {
    const { status } = await client.command(command);
    if (!status.startsWith('OK')) throw new Error(`${command}: ${status}`);
  }
}

async function filled(client: RawClient, folder: string, from: number, to: number) {
  for (let n = from; n <= to; n += 1) await client.append(folder, letter(n), '(\\Seen) ');
}

describe.each(SERVERS)('$name', ({ name, without, start, prefix }) => {
  const skipped = without();

  test.skipIf(skipped)('a changed flag costs one FETCH more than the newest page', async () => {
    const mirror = await mirrored(start);
    const client = await RawClient.login(mirror.server);
    await filled(client, 'INBOX', 1, 150);
    await commandsOfSync(mirror);
    await succeed(client, 'SELECT INBOX', 'UID STORE 3 +FLAGS (\\Flagged $Forwarded)');
    const commands = await commandsOfSync(mirror);
    const verbs = commands.map(({ verb }) => verb);
    // The newest page shows whether the uids still mean the same.
    expect(verbs).toEqual(['LIST', 'EXAMINE', 'UID SEARCH', 'UID FETCH', 'EXAMINE', 'UID FETCH']);
    expect(commands.at(-1)?.text).toContain('(CHANGEDSINCE');
    const { there, here } = await bothSides(mirror);
    expect(here).toEqual(there);
    client.close();
  });

  test.skipIf(skipped)('a renamed folder is not read again if another takes its name', async () => {
    const mirror = await mirrored(start);
    const client = await RawClient.login(mirror.server);
    const [letters, old] = [`"${prefix}letters"`, `"${prefix}old letters"`];
    await succeed(client, `CREATE ${letters}`);
    await filled(client, `${prefix}letters`, 1, 30);
    await commandsOfSync(mirror);
    await succeed(client, `RENAME ${letters} ${old}`, `CREATE ${letters}`);
    await filled(client, `${prefix}letters`, 31, 31);
    const fetched = downloads(await commandsOfSync(mirror));
    expect(fetched.map((text) => /UID FETCH (\S+)/.exec(text)?.[1])).toEqual(['1']);
    const { there, here } = await bothSides(mirror);
    expect(here).toEqual(there);
    client.close();
  });

  test.skipIf(skipped)(
    '40 moves and another UIDVALIDITY download nothing that is certain',
    async () => {
      const mirror = await mirrored(start);
      const client = await RawClient.login(mirror.server);
      const [archive, other] = [`"${prefix}letters"`, `"${prefix}other"`];
      await filled(client, 'INBOX', 1, 60);
      await succeed(client, `CREATE ${archive}`);
      await filled(client, `${prefix}letters`, 61, 80);
      // Two messages that only their ids tell apart from others.
      await succeed(client, `SELECT ${archive}`, `UID COPY 1 ${archive}`, 'SELECT INBOX');
      expect(downloads(await commandsOfSync(mirror))).not.toEqual([]);

      await succeed(client, `UID MOVE 1:40 ${archive}`);
      expect(downloads(await commandsOfSync(mirror, '--accept-endings'))).toEqual([]);

      await succeed(client, `CREATE ${other}`, `SELECT ${archive}`, `UID COPY 1:* ${other}`);
      await succeed(client, 'UNSELECT', `DELETE ${archive}`, `CREATE ${archive}`);
      await succeed(client, `SELECT ${other}`, `UID COPY 1:* ${archive}`, 'UNSELECT');
      await succeed(client, `DELETE ${other}`);
      const fetched = downloads(await commandsOfSync(mirror, '--accept-endings'));
      if (name === 'Cyrus') expect(fetched).toEqual([]);
      else expect(fetched.map((text) => /UID FETCH (\S+)/.exec(text)?.[1])).toEqual(['1,21']);
      const { there, here } = await bothSides(mirror);
      expect(here).toEqual(there);
      client.close();
    },
    60_000,
  );
});
