import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Answer, fill, type Served, serve } from '../client.ts';
import { validRequest } from './cases.ts';
import { BYTES, complaints, STRICT } from './strict-types.ts';
import { TABLE } from './table.ts';
import { type Change, callRow, world } from './world.ts';

test('every operation has its types', () => {
  const named = [...Object.keys(STRICT), ...Object.keys(BYTES)].sort();
  expect(named).toEqual(TABLE.map(({ surface, name }) => `${surface}.${name}`).sort());
});

const UNUSUAL: Readonly<Record<string, Change>> = {
  'mailbox.updateMessageFlags': { body: { uids: [1, 99], addFlags: ['\\Seen'] } },
  'platform.createWebhook': {
    body: { name: 'n', url: 'http://127.0.0.1:9/', events: ['message.received'], description: 'd' },
  },
};

describe.each(TABLE)('$surface $name', (row) => {
  test.each(['usual', 'unusual'] as const)('answers its types, %s', async (kind) => {
    const w = await world();
    try {
      const key = `${row.surface}.${row.name}`;
      // Entries of deliveries that succeeded and that got no answer.
      await testedWebhook(w.served, w.values.webhookId, async () => {
        if (kind === 'unusual') await w.receiver.close();
      });
      const change = kind === 'unusual' ? (UNUSUAL[key] ?? validRequest(row)) : validRequest(row);
      const answer = await callRow(w, row, change);
      expect(row.success).toContain(answer.status);
      expect(complaints(key, answer)).toEqual([]);
    } finally {
      await w.close();
    }
  });
});

async function testedWebhook(
  { call, m }: Served,
  webhook: unknown,
  between: () => Promise<void>,
): Promise<void> {
  await call(`POST ${m}/webhooks/${webhook}/test`);
  await between();
  await call(`POST ${m}/webhooks/${webhook}/test`);
}

const listed = z.object({ data: z.array(z.object({ uid: z.int() })) });

async function eachMessage(served: Served, look: (uid: number) => Promise<void>): Promise<number> {
  const page = await served.call(`GET ${served.m}/folders/INBOX/messages?perPage=100`);
  expect(complaints('mailbox.listMessages', page)).toEqual([]);
  const { data } = listed.parse(page.json);
  for (const { uid } of data) await look(uid);
  return data.length;
}

/** Reads every message of INBOX in every form that is JSON. */
async function expectTypes(served: Served): Promise<number> {
  return eachMessage(served, async (uid) => {
    const one = `GET ${served.m}/folders/INBOX/messages/${uid}`;
    expect([uid, complaints('mailbox.getMessage', await served.call(one))]).toEqual([uid, []]);
    const text = await served.call(`${one}/text`);
    expect([uid, complaints('mailbox.getMessageText', text)]).toEqual([uid, []]);
  });
}

test('generated mail is read in every form without a complaint', async () => {
  const served = await serve({ seed: 1, mail: { messages: 200 } });
  try {
    expect(await expectTypes(served)).toBeGreaterThan(50);
    const quota = await served.call(`GET ${served.m}/quota`);
    expect(complaints('mailbox.getQuota', quota)).toEqual([]);
  } finally {
    await served.close();
  }
});

test('so is mail that lacks what mail should have', async () => {
  const served = await serve({ mail: { messages: 0 } });
  try {
    const html = 'Content-Type: text/html\r\n\r\n<p>one &amp; <b>two</b></p>';
    const binary = 'Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA';
    const empty = 'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b--\r\n';
    const sources = [
      '',
      '\r\n\r\n',
      'no header at all',
      html,
      binary,
      empty,
      'From: \r\n\r\nx <y>',
    ];
    fill(served, sources);
    expect(await expectTypes(served)).toBe(sources.length);
    const textOf = async (uid: number) =>
      (await served.call(`GET ${served.m}/folders/INBOX/messages/${uid}/text`)).json;
    expect(await textOf(4)).toMatchObject({
      data: { text: expect.stringContaining('one & two'), html: '<p>one &amp; <b>two</b></p>' },
    });
    expect(await textOf(5)).toEqual({ data: { text: '', html: '' } });
    expect(await textOf(7)).toEqual({
      data: { text: 'x <y>', html: expect.stringContaining('x &lt;y&gt;') },
    });
  } finally {
    await served.close();
  }
});

test('the reader complains of what a strict client would', () => {
  const answer = (json: unknown): Answer => ({
    status: 200,
    headers: {},
    bytes: Buffer.of(1),
    json,
  });
  const of = (operation: string, json: unknown) => complaints(operation, answer(json));
  expect(of('mailbox.getMessageText', { data: { text: 'a', html: null } })).not.toEqual([]);
  expect(
    of('mailbox.testWebhook', { data: { httpStatus: null, success: false, error: 'e' } }),
  ).not.toEqual([]);
  expect(of('mailbox.submitFeedback', {})).not.toEqual([]);
});
