import { ImapFlow } from 'imapflow';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { seeded } from '../bench/seeded.ts';
import { type Dovecot, startDovecot, withoutDovecot } from './dovecot.ts';
import { type Fault, randomFault } from './faults.ts';
import { ImapProxy, type ProxyOptions } from './proxy.ts';
import { RawClient } from './raw-client.ts';
import { readBack } from './read-back.ts';

const LETTER = 'Subject: one\r\n\r\nbody\r\n';

const skipped = withoutDovecot();
let server: Dovecot;
let proxy: ImapProxy;
let folder = '';
let folders = 0;
beforeAll(async () => {
  if (!skipped) server = await startDovecot({ maxMessageBytes: 1000 });
});
beforeEach(async () => {
  folders += 1;
  folder = `F${folders}`;
  if (!skipped) await server.doveadm('mailbox', 'create', '-u', server.user, folder);
});
afterEach(() => proxy?.stop());
afterAll(() => server?.stop());

/** A client behind a proxy with these faults. */
async function through(faults: readonly Fault[], options: Partial<ProxyOptions> = {}) {
  proxy = await ImapProxy.start({ to: server, faults, ...options });
  return connected();
}

function connected(): Promise<RawClient> {
  const { user, password } = server;
  return RawClient.login({ host: proxy.host, port: proxy.port, user, password });
}

/** How many messages the folder of this test has. */
async function stored(): Promise<number> {
  const count = await server.doveadm('mailbox', 'status', '-u', server.user, 'messages', folder);
  return Number(/messages=(\d+)/.exec(count)?.[1]);
}

const APPEND = { command: 'APPEND', nth: 2 } as const;
const CUTS: readonly { readonly fault: Fault; readonly has: number }[] = [
  { fault: { ...APPEND, do: 'cut-before' }, has: 1 },
  { fault: { ...APPEND, do: 'cut-in-literal' }, has: 1 },
  { fault: { ...APPEND, do: 'cut-in-literal', bytes: 3 }, has: 1 },
  { fault: { ...APPEND, do: 'cut-before-answer' }, has: 2 },
];

test.skipIf(skipped).each(CUTS)('$fault.do: the server has $has messages', async (cut) => {
  const client = await through([cut.fault]);
  expect((await client.append(folder, LETTER)).status).toMatch(/^OK/);
  expect((await client.append(folder, LETTER)).status).toBe('');
  expect(proxy.happened).toEqual([cut.fault]);
  expect(await stored()).toBe(cut.has);
  const again = await connected();
  expect((await again.append(folder, LETTER)).status).toMatch(/^OK/);
  expect(proxy.verbs).toEqual(['APPEND', 'AUTHENTICATE']);
  expect(JSON.stringify(proxy.commands)).not.toContain(
    Buffer.from(`\0${server.user}\0${server.password}`).toString('base64'),
  );
});

test.skipIf(skipped)('delivers a message when its client has gone', async () => {
  const late: Fault = { ...APPEND, do: 'deliver-late' };
  const client = await through([late]);
  await client.append(folder, LETTER);
  expect((await client.append(folder, LETTER)).status).toBe('');
  expect(proxy.happened).toEqual([late]);
  expect(await stored()).toBe(1);
  await proxy.deliver();
  expect(await stored()).toBe(2);
});

test.skipIf(skipped)('cuts after a number of bytes in each direction', async () => {
  const client = await through([]);
  await client.append(folder, LETTER);
  const { passed } = proxy;
  for (const to of ['server', 'client'] as const) {
    await proxy.stop();
    const cut = await through([{ do: 'cut', to, afterBytes: passed[to] - 1 }]);
    expect((await cut.append(folder, LETTER)).status).toBe('');
    expect(proxy.passed[to]).toBe(passed[to] - 1);
  }
  // The last byte that the server did not get is the end of the command.
  expect(await stored()).toBe(2);
});

test.skipIf(skipped).each([true, false])('answers itself (early: %s)', async (early) => {
  const text = 'NO [LIMIT] Too many requests';
  const client = await through([
    { ...APPEND, do: 'answer', text, early },
    { command: 'CREATE', nth: 1, do: 'answer', text: 'BAD no' },
  ]);
  await client.append(folder, LETTER);
  expect((await client.append(folder, LETTER)).status).toBe(text);
  const plus = `APPEND ${folder} {${LETTER.length}+}\r\n${LETTER}`;
  expect((await client.command(plus)).status).toMatch(/^OK/);
  expect((await client.command('CREATE X')).status).toBe('BAD no');
  expect((await client.command('STARTTLS')).status).toBe('NO Not through here');
  // A literal that the server itself does not want.
  expect((await client.append(folder, 'x'.repeat(2000))).status).toMatch(/^NO \[LIMIT\]/);
  expect((await client.append(folder, LETTER)).status).toMatch(/^OK/);
  expect(await stored()).toBe(3);
});

test.skipIf(skipped)('holds a command and an answer until they are released', async () => {
  const command: Fault = { command: 'APPEND', nth: 1, do: 'hold-command' };
  const answer: Fault = { command: 'APPEND', nth: 2, do: 'hold-answer' };
  const client = await through([command, answer]);
  const first = client.append(folder, LETTER);
  await proxy.until(command);
  expect(await stored()).toBe(0);
  proxy.release();
  expect((await first).status).toMatch(/^OK/);
  const second = client.append(folder, LETTER);
  await proxy.until(answer);
  expect(await stored()).toBe(2);
  proxy.release();
  expect((await second).status).toMatch(/^OK/);
  expect(proxy.commands.map(({ verb, text }) => [verb, text])).toEqual([
    ['AUTHENTICATE', 'AUTHENTICATE'],
    ...[1, 2].map(() => ['APPEND', `APPEND "${folder}" {${LETTER.length}}`]),
  ]);
});

test.skipIf(skipped)(
  'holds an answer while more commands are sent, of which it holds one',
  async () => {
    const answer: Fault = { command: 'NOOP', nth: 1, do: 'hold-answer' };
    const command: Fault = { command: 'NOOP', nth: 3, do: 'hold-command' };
    const client = await through([answer, command]);
    const first = client.send('NOOP');
    await proxy.until(answer);
    const second = client.send('CAPABILITY');
    const third = client.send('NOOP');
    const fourth = client.send('NOOP');
    await proxy.until(command);
    proxy.release();
    for (const tag of [first, second, third, fourth])
      expect((await client.answer(tag)).status).toMatch(/^OK/);
  },
);

test.skipIf(skipped)('refuses connections', async () => {
  const client = await through([
    { do: 'bye', connection: 2, text: '[UNAVAILABLE] Too many connections' },
    { do: 'refuse', connection: 3 },
  ]);
  const { greeting } = await RawClient.connect(proxy.host, proxy.port);
  expect(greeting).toBe('* BYE [UNAVAILABLE] Too many connections');
  await expect(connected()).rejects.toThrow();
  await proxy.refuse();
  await expect(RawClient.connect(proxy.host, proxy.port)).rejects.toThrow('ECONNREFUSED');
  expect((await client.command('NOOP')).status).toMatch(/^OK/);
  await proxy.accept();
  expect((await (await connected()).command('NOOP')).status).toMatch(/^OK/);
});

test.skipIf(skipped)('ImapFlow appends through TLS', async () => {
  proxy = await ImapProxy.start({ to: server, certificate: server.certificate });
  const client = new ImapFlow({
    host: proxy.host,
    port: proxy.port,
    secure: true,
    tls: { ca: server.certificate.pem },
    auth: { user: server.user, pass: server.password },
    logger: false,
  });
  await client.connect();
  await client.append(folder, LETTER);
  await client.logout();
  const read = await readBack(server);
  expect(read.find((one) => one.folder === folder)?.messages).toHaveLength(1);
  expect(proxy.verbs).toEqual(expect.arrayContaining(['APPEND', 'LOGOUT']));
  expect(proxy.verbs).not.toContain('STARTTLS');
});

test('the same seed draws the same faults, and every kind', () => {
  const draw = (seed: number) =>
    Array.from({ length: 100 }, (_, i) =>
      randomFault(seeded('faults', seed, i), { commands: 10, bytes: 10_000 }),
    );
  expect(draw(1)).toEqual(draw(1));
  expect(draw(1)).not.toEqual(draw(2));
  const kinds = new Set(draw(1).map((fault) => fault.do));
  expect([...kinds].sort()).toEqual([
    'answer',
    'cut',
    'cut-before',
    'cut-before-answer',
    'cut-in-literal',
    'deliver-late',
  ]);
});
