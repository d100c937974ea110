import { createHash } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { RawClient } from './raw-client.ts';
import { readBack } from './read-back.ts';
import type { MailServer, MailServerOptions } from './server.ts';

const LETTER = 'From: a@b.example\r\nSubject: one\r\n\r\nbody\r\n';
const FLAGS_AND_DATE = '(\\Seen kw1) " 3-Feb-2011 04:05:06 +0000" ';
const READ = {
  uid: 1,
  sha256: createHash('sha256').update(LETTER).digest('hex'),
  size: LETTER.length,
  date: '2011-02-03T04:05:06Z',
  flags: ['\\Seen', 'kw1'],
};

const running: MailServer[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
});

/** The servers, and the folder of INBOX that both can make. */
const SERVERS = [
  {
    name: 'Dovecot',
    without: withoutDovecot,
    start: (options: MailServerOptions): Promise<MailServer> => startDovecot(options),
    below: (separator: string) => `Entw${separator}x`,
  },
  {
    name: 'Cyrus',
    without: withoutCyrus,
    start: (options: MailServerOptions) => startCyrus(options),
    below: (separator: string) => `INBOX${separator}Entw${separator}x`,
  },
];

for (const { name, without, start, below } of SERVERS) {
  const skipped = without();
  const serve = async (options: MailServerOptions): Promise<MailServer> => {
    const server = await start(options);
    running.push(server);
    return server;
  };

  test.skipIf(skipped).each(['.', '/'] as const)(
    `${name} has a message after a SIGKILL, in a folder with %s`,
    async (separator) => {
      const server = await serve({ separator });
      const folder = below(separator);
      const client = await RawClient.login(server);
      for (const command of [`CREATE ${folder}-&APw-`, `SUBSCRIBE ${folder}-&APw-`])
        expect((await client.command(command)).status).toMatch(/^OK/);
      const { status } = await client.append(`${folder}-&APw-`, LETTER, FLAGS_AND_DATE);
      expect(status).toMatch(/^OK \[APPENDUID \d+ 1\]/);

      const before = await readBack(server);
      expect(before.find((one) => one.folder === `${folder}-ü`)).toMatchObject({
        raw: `${folder}-&APw-`,
        delimiter: separator,
        subscribed: true,
        messages: [READ],
      });
      // Cyrus writes them in small letters.
      const attributes = before.flatMap((one) => one.attributes).map((one) => one.toLowerCase());
      expect(attributes).toEqual(
        expect.arrayContaining(['\\drafts', '\\sent', '\\trash', '\\junk', '\\archive']),
      );
      await server.kill();
      expect((await client.command('NOOP')).status).toBe('');
      await expect(RawClient.connect(server.host, server.port)).rejects.toThrow('ECONNREFUSED');
      await server.restart();
      expect(await readBack(server)).toEqual(before);
    },
  );

  test.skipIf(skipped)(`${name} refuses what it is told to refuse`, async () => {
    const locked = below('/');
    const server = await serve({
      separator: '/',
      users: ['anna', 'ben'],
      quota: { messages: 1 },
      maxMessageBytes: 2000,
      readOnly: [locked],
      maxConnections: 2,
    });
    const client = await RawClient.login(server);
    const { status: opened } = await client.command(`SELECT "${locked}"`);
    expect(opened).toMatch(/^OK/);
    expect((await client.append(locked, LETTER)).status).toMatch(/^NO /);
    expect((await client.append('INBOX', LETTER + 'x'.repeat(2001))).status).toMatch(/^NO /);
    expect((await client.append('INBOX', LETTER)).status).toMatch(/^OK/);
    expect((await client.append('INBOX', LETTER)).status).toMatch(/^NO /);
    const second = await RawClient.login(server);
    await expect(RawClient.login(server)).rejects.toThrow();
    expect((await second.command('NOOP')).status).toMatch(/^OK/);
    await expect(RawClient.login({ ...server, user: 'ben', password: 'x' })).rejects.toThrow('NO');
    const inbox = (await readBack(server, 'ben')).find(({ folder }) => folder === 'INBOX');
    expect(inbox?.messages).toEqual([]);
    second.close();
    client.close();
  });
}
