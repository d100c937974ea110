import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { RawClient } from './raw-client.ts';
import { readBack } from './read-back.ts';
import type { MailServer } from './server.ts';

const HEAD = 'From: a@b.example\r\nSubject: s\r\n\r\n';
const LATIN_1 = Buffer.from(`X: \xe4\r\n${HEAD}`, 'latin1');

/** What is appended: bytes, and what stands before them. */
const CASES: Readonly<Record<string, readonly [source: string | Buffer, between?: string]>> = {
  plain: [`${HEAD}x\r\n`],
  'bare LF': [`${HEAD}x\ny\r\n`],
  NUL: [`${HEAD}x\0y\r\n`],
  '8-bit header': [LATIN_1],
  '8-bit body': [Buffer.concat([Buffer.from(HEAD), Buffer.from([0xe4, 0xff, 0x80])])],
  'no header': ['just text\r\n'],
  empty: [''],
  'over the limit': [HEAD + 'x'.repeat(100_001)],
  'in 1960': [HEAD, '" 1-Jan-1960 00:00:00 +0000" '],
  'at 0': [HEAD, '" 1-Jan-1970 00:00:00 +0000" '],
  'on the second day': [HEAD, '" 2-Jan-1970 00:00:00 +0000" '],
  'in 2100': [HEAD, '" 1-Jan-2100 00:00:00 +0000" '],
  'keyword of 50': [HEAD, `(${'k'.repeat(50)}) `],
  'keyword of 51': [HEAD, `(${'l'.repeat(51)}) `],
  'keyword beyond ASCII': [HEAD, '(grün) '],
  '\\Recent': [HEAD, '(\\Recent) '],
};

/** Refused with this, or stored: the same or altered bytes, and the date where one was given. */
type Outcome = string;

/** Appends each of the cases to one folder. */
async function outcomes(server: MailServer): Promise<Record<string, Outcome>> {
  // Once dates were asked for, Dovecot keeps those of new messages in 32 bits; before, Maildir's files have them.
  const client = await RawClient.login(server);
  await client.append('INBOX', HEAD);
  await readBack(server);
  const answers: [string, string][] = [];
  for (const [name, [source, between]] of Object.entries(CASES))
    answers.push([name, (await client.append('INBOX', source, between)).status]);
  client.close();
  const messages = (await readBack(server)).find(({ folder }) => folder === 'INBOX')?.messages;
  return Object.fromEntries(
    answers.map(([name, status]) => {
      const uid = /^OK \[APPENDUID \d+ (\d+)\]/.exec(status)?.[1];
      if (uid === undefined) return [name, status.replace(/ \([\d. +]+ secs\)\.$/, '')];
      const read = messages?.find((message) => message.uid === Number(uid));
      const [source = '', between = ''] = CASES[name] ?? [];
      const hash = createHash('sha256').update(source).digest('hex');
      const date = /-(\d{4}) /.exec(between)?.[1];
      const dated =
        date === undefined ? '' : `, ${read?.date.startsWith(date) ? 'its' : 'another'} date`;
      return [name, (read?.sha256 === hash ? 'same' : 'altered') + dated];
    }),
  );
}

async function answersOf(start: () => Promise<MailServer>): Promise<Record<string, Outcome>> {
  const server = await start();
  try {
    return await outcomes(server);
  } finally {
    await server.stop();
  }
}

test.skipIf(withoutDovecot())('what Dovecot stores, alters and refuses', async () => {
  expect(await answersOf(() => startDovecot({ maxMessageBytes: 100_000 }))).toEqual({
    plain: 'same',
    'bare LF': 'altered',
    NUL: 'altered',
    '8-bit header': 'same',
    '8-bit body': 'same',
    'no header': 'same',
    empty: "NO Can't save a zero byte message",
    'over the limit': expect.stringMatching(/^NO \[LIMIT\] /),
    'in 1960': 'same, another date',
    'at 0': 'same, its date',
    'on the second day': 'same, its date',
    'in 2100': 'same, another date',
    'keyword of 50': 'same',
    'keyword of 51': 'NO [CANNOT] Keyword length too long',
    'keyword beyond ASCII': expect.stringMatching(/^BAD .*8bit data/),
    '\\Recent': expect.stringMatching(/^BAD .*Invalid system flag/),
  });
});

test.skipIf(withoutCyrus())('what Cyrus stores, alters and refuses', async () => {
  expect(await answersOf(() => startCyrus({ maxMessageBytes: 100_000 }))).toEqual({
    plain: 'same',
    'bare LF': 'NO Message contains bare newlines',
    NUL: 'NO Message contains NUL characters',
    '8-bit header': 'altered',
    '8-bit body': 'same',
    'no header': 'NO Message contains invalid header',
    empty: 'NO Zero-length message literal',
    'over the limit': 'NO [TOOBIG] Message size exceeds fixed limit',
    'in 1960': 'BAD Invalid date-time in Append command',
    'at 0': 'same, another date',
    'on the second day': 'same, its date',
    'in 2100': 'same, its date',
    'keyword of 50': 'same',
    'keyword of 51': 'same',
    'keyword beyond ASCII': 'BAD Invalid flag in Append command',
    '\\Recent': 'BAD Invalid flag in Append command',
  });
});
