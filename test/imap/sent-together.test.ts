import { afterEach, expect, test } from 'vitest';
import { openAccount } from './account.ts';
import { type Answer, ScriptedServer } from './scripted-server.ts';

const signal = new AbortController().signal;
const newest = { page: 1, perPage: 100, order: 'descending' } as const;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const status = (name: string): string =>
  `* LIST () "/" "${name}"\r\n* STATUS "${name}" (MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7 UNSEEN 0)\r\n`;
const LIST = (tag: string): string => `${status('INBOX')}${status('Gone')}${tag} OK done\r\n`;
const EXAMINED = '* 2 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\n';
const found = (tag: string): string =>
  `* ESEARCH (TAG "${tag}") UID COUNT 2 ALL 1:2\r\n${tag} OK done\r\n`;
const message = (uid: number): string =>
  `* ${uid} FETCH (UID ${uid} FLAGS () INTERNALDATE "01-Jan-2026 00:00:00 +0000" RFC822.SIZE 9 ` +
  'ENVELOPE (NIL "a" NIL NIL NIL NIL NIL NIL NIL "<a@x>"))\r\n';

async function start(answers: Record<string, Answer>) {
  const server = await ScriptedServer.start({
    answers: {
      LIST,
      EXAMINE: (tag, line) =>
        line.includes('Gone') ? `${tag} NO [NONEXISTENT] x\r\n` : `${EXAMINED}${tag} OK done\r\n`,
      'UID SEARCH': found,
      'UID FETCH': (tag) => `${message(1)}${message(2)}${tag} OK done\r\n`,
      ...answers,
    },
  });
  closing.push(() => server.stop());
  const { origin, connections } = openAccount({ port: server.port });
  closing.push(() => connections.close());
  await origin.folders('', signal);
  const list = (folder: string) =>
    origin.list({ host: origin.host, mailbox: 'm', folder }, newest, signal);
  return { server, list };
}

test('a folder is searched without waiting until it is open', async () => {
  const { server, list } = await start({
    EXAMINE: async (tag) => {
      while (!server.lines.some((line) => line.startsWith('UID SEARCH')))
        await new Promise((resolve) => setImmediate(resolve));
      return `${EXAMINED}${tag} OK done\r\n`;
    },
  });
  expect(await list('INBOX')).toMatchObject({ total: 2, uidValidity: '7' });
});

test('a folder that cannot be opened is refused, whatever follows', async () => {
  const { server, list } = await start({});
  await expect(list('Gone')).rejects.toMatchObject({ code: 'imap.folder-refused' });
  expect((await list('INBOX')).total).toBe(2);
  expect(server.connections).toBe(1);
});

test('messages that arrive with the answer are counted', async () => {
  const { list } = await start({
    CAPABILITY: (tag) => `* CAPABILITY IMAP4rev1\r\n${tag} OK done\r\n`,
    // Without ESEARCH, the number of messages is compared.
    EXAMINE: (tag) => `${EXAMINED}${tag} OK done\r\n* 3 EXISTS\r\n`,
    'UID SEARCH': (tag) => `* SEARCH 1 2 3\r\n${tag} OK done\r\n`,
    'UID FETCH': (tag) => `${message(1)}${message(2)}${message(3)}${tag} OK done\r\n`,
  });
  expect((await list('INBOX')).total).toBe(3);
});

test('nothing is believed that follows an unreadable answer', async () => {
  const { server, list } = await start({
    EXAMINE: (tag) => {
      const isFirst = server.lines.filter((line) => line.startsWith('EXAMINE')).length === 1;
      return `${EXAMINED}${isFirst ? '* 1 FETCH (UID\r\n' : ''}${tag} OK done\r\n`;
    },
    'UID SEARCH': (tag) =>
      server.connections === 1
        ? `* ESEARCH (TAG "${tag}") UID COUNT 1 ALL 2\r\n${tag} OK done\r\n`
        : found(tag),
  });
  await expect(list('INBOX')).rejects.toMatchObject({ code: 'imap.malformed' });
  expect((await list('INBOX')).total).toBe(2);
});

test('a connection that breaks ends all commands', async () => {
  let isBroken = true;
  const { server, list } = await start({
    EXAMINE: (tag, _line, socket) => {
      if (isBroken) socket.destroy();
      isBroken = false;
      return `${EXAMINED}${tag} OK done\r\n`;
    },
  });
  expect((await list('INBOX')).total).toBe(2);
  expect(server.connections).toBe(2);
});

test('a search that follows a refused folder cannot disturb the next one', async () => {
  let isFirst = true;
  const { list } = await start({
    'UID SEARCH': async (tag) => {
      if (!isFirst) return found(tag);
      isFirst = false;
      // Long after the refusal has been read.
      for (let turn = 0; turn < 200; turn += 1)
        await new Promise((resolve) => setImmediate(resolve));
      return `* 1 FETCH (UID\r\n${tag} BAD no folder\r\n`;
    },
  });
  await expect(list('Gone')).rejects.toMatchObject({ code: 'imap.folder-refused' });
  expect((await list('INBOX')).total).toBe(2);
});

test('a search that leaves out messages is not believed', async () => {
  const { list } = await start({
    'UID SEARCH': (tag) => `* ESEARCH (TAG "${tag}") UID COUNT 1 ALL 2\r\n${tag} OK done\r\n`,
  });
  await expect(list('INBOX')).rejects.toMatchObject({
    code: 'imap.count-differs',
    facts: { counted: 2, found: 1 },
  });
});
