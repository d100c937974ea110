import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fill, mail, type Served, serveEmpty } from './client.ts';

let served: Served;
let list: string;
let source: string;
const BODY = mail('one', `X-Filler: ${'y'.repeat(400)}`);

beforeEach(async () => {
  served = await serveEmpty({ seed: 7 });
  fill(served, [BODY, mail('two'), mail('three'), mail('four')]);
  list = `GET ${served.m}/folders/INBOX/messages`;
  source = `GET ${served.m}/folders/INBOX/messages/1/source`;
});
afterEach(() => served.close());

async function statuses(route: string, times: number): Promise<number[]> {
  const found: number[] = [];
  for (let time = 0; time < times; time += 1) found.push((await served.call(route)).status);
  return found;
}

async function uids(): Promise<number[]> {
  const { json } = await served.call(list);
  if (typeof json !== 'object' || json === null || !('data' in json) || !Array.isArray(json.data)) {
    throw new Error('no list');
  }
  return json.data.map((item: { uid: number }) => item.uid);
}

describe('which requests a fault meets', () => {
  test('those of its operation, on schedule', async () => {
    served.sandbox.fault({
      kind: 'status',
      status: 502,
      operation: 'listMessages',
      schedule: [2, 4],
    });
    expect(await statuses(source, 3)).toEqual([200, 200, 200]);
    expect(await statuses(list, 5)).toEqual([200, 502, 200, 502, 200]);
  });

  test('every n-th, a number of times', async () => {
    served.sandbox.fault({ kind: 'status', status: 500, every: 2, times: 2 });
    expect(await statuses(list, 7)).toEqual([200, 500, 200, 500, 200, 200, 200]);
  });

  test('a share of them, the same one for the same seed', async () => {
    const run = async () => {
      const other = await serveEmpty({ seed: 7 });
      other.sandbox.fault({ kind: 'status', status: 504, probability: 0.3 });
      const found: number[] = [];
      for (let time = 0; time < 60; time += 1) {
        found.push((await other.call('GET /api/v1/me')).status);
      }
      await other.close();
      return found;
    };
    const first = await run();
    expect(await run()).toEqual(first);
    const hit = first.filter((status) => status === 504).length;
    expect(hit).toBeGreaterThan(5);
    expect(hit).toBeLessThan(35);
  });

  test('none once they are cleared', async () => {
    served.sandbox.fault({ kind: 'status', status: 500 });
    served.sandbox.clearFaults();
    expect(await statuses(list, 2)).toEqual([200, 200]);
  });

  test('what is no rule is refused', () => {
    // @ts-expect-error the kind is not one
    expect(() => served.sandbox.fault({ kind: 'meteor' })).toThrow();
  });
});

describe('what a fault does', () => {
  test('a closed connection', async () => {
    served.sandbox.fault({ kind: 'close', times: 1 });
    await expect(served.call(source)).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
    expect(served.sandbox.requests().byOutcome['getMessageSource 0']).toBe(1);
    expect((await served.call(source)).status).toBe(200);
  });

  test('a body cut short of its Content-Length', async () => {
    served.sandbox.fault({ kind: 'cut', mode: 'declared', times: 1 });
    await expect(served.call(source)).rejects.toThrow();
  });

  test('a chunked body that breaks off', async () => {
    served.sandbox.fault({ kind: 'cut', mode: 'chunked', times: 1 });
    await expect(served.call(source)).rejects.toThrow();
  });

  test('a short body that ends as if it were whole', async () => {
    served.sandbox.fault({ kind: 'cut', mode: 'silent', keep: 0.25, times: 1 });
    const { status, headers, bytes } = await served.call(source);
    expect(status).toBe(200);
    expect(headers['content-length']).toBeUndefined();
    expect(headers['content-type']).toBe('message/rfc822');
    expect(bytes.toString('latin1')).toBe(BODY.slice(0, Math.floor(BODY.length / 4)));
  });

  test('a slow body comes whole', async () => {
    served.sandbox.fault({ kind: 'slow', overMs: 50, times: 1 });
    expect((await served.call(source)).bytes.toString('latin1')).toBe(BODY);
  });

  test('JSON that is broken, under a JSON type and a right length', async () => {
    served.sandbox.fault({ kind: 'broken-json', times: 1 });
    const { status, headers, bytes, json } = await served.call(list);
    expect([status, json]).toEqual([200, undefined]);
    expect(headers['content-type']).toMatch(/^application\/json/);
    expect(headers['content-length']).toBe(String(bytes.length));
  });

  test('a maintenance page in place of mail', async () => {
    served.sandbox.fault({ kind: 'html-page', times: 1 });
    const { status, headers, bytes } = await served.call(source);
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(bytes.toString()).toMatch(/^<!DOCTYPE html>/);
  });

  test('a wrong total, and sizes that are off', async () => {
    served.sandbox.fault({ kind: 'wrong-total', by: -3, times: 1 });
    served.sandbox.fault({ kind: 'wrong-size', by: 10, times: 1 });
    const { json } = await served.call(`${list}?sort=uid&perPage=1`);
    expect(json).toMatchObject({
      data: [{ uid: 1, size: BODY.length + 10 }],
      pagination: { total: 1 },
    });
  });

  test('mail that quotes the names of fields is left alone', async () => {
    fill(served, [mail('look: "size":5 and "total":7')]);
    served.sandbox.fault({ kind: 'wrong-size', by: 10, times: 1 });
    served.sandbox.fault({ kind: 'wrong-total', by: 1, times: 1 });
    const { json } = await served.call(`${list}?perPage=1`);
    expect(json).toMatchObject({ data: [{ subject: 'look: "size":5 and "total":7' }] });
  });
});

describe('changes in the middle of a walk', () => {
  test('mail arrives after the page was answered', async () => {
    served.sandbox.fault({ kind: 'arrive', operation: 'listMessages', count: 2, times: 1 });
    expect(await uids()).toEqual([4, 3, 2, 1]);
    expect(await uids()).toEqual([6, 5, 4, 3, 2, 1]);
  });

  test('messages vanish or move away', async () => {
    served.sandbox.fault({ kind: 'vanish', operation: 'listMessages', times: 1 });
    served.sandbox.fault({
      kind: 'move',
      operation: 'listMessages',
      uids: [1, 9],
      to: 'INBOX.Kept',
      times: 1,
    });
    expect(await uids()).toEqual([4, 3, 2, 1]);
    expect(await uids()).toEqual([3, 2]);
    const kept = await served.call(`GET ${served.m}/folders/INBOX.Kept/messages/1/source`);
    expect(kept.bytes.toString('latin1')).toBe(BODY);
  });

  test('the folder is renumbered', async () => {
    served.sandbox.fault({ kind: 'renumber', operation: 'listMessages', firstUid: 50, times: 1 });
    expect(await uids()).toEqual([4, 3, 2, 1]);
    expect(await uids()).toEqual([53, 52, 51, 50]);
  });
});

test.each([400, 409] as const)('a platform operation answers %i on request', async (status) => {
  served.sandbox.fault({ kind: 'status', status, operation: 'platform.getWebhook' });
  const token = served.sandbox.tokens.platform;
  const answer = await served.call('GET /api/mail/v1/webhooks/w', { token });
  expect(answer).toMatchObject({ status, json: { message: expect.stringMatching(/./) } });
});

test('an operation is accepted with 202 on request, and carried out', async () => {
  const operation = 'platform.createWebhook';
  served.sandbox.fault({ kind: 'accepted', operation, times: 1 });
  const token = served.sandbox.tokens.platform;
  const create = async () => {
    const body = { name: 'n', url: 'http://127.0.0.1:9/', events: ['message.received'] };
    const mailbox = served.sandbox.mailboxes[0]?.resourceId;
    return served.call(`POST /api/mail/v1/mailboxes/${mailbox}/webhooks`, { token, body });
  };
  const accepted = await create();
  expect(accepted).toMatchObject({ status: 202, json: { id: expect.any(String) } });
  expect((await create()).status).toBe(201);
  const { json } = await served.call(`GET ${served.m}/webhooks`);
  expect(json).toMatchObject({ pagination: { total: 2 } });
  // A refusal stays what it is.
  served.sandbox.fault({ kind: 'accepted', operation: 'platform.getWebhook' });
  expect((await served.call('GET /api/mail/v1/webhooks/w', { token })).status).toBe(404);
});

describe('limits', () => {
  test('more requests in a minute than allowed are 429, with the time to wait', async () => {
    await served.close();
    let now = Date.UTC(2026, 0, 1);
    served = await serveEmpty({ now: () => now, settings: { requestsPerMinute: 3 } });
    const me = 'GET /api/v1/me';
    expect(await statuses(me, 2)).toEqual([200, 200]);
    now += 20_000;
    expect(await statuses(me, 2)).toEqual([200, 429]);
    const refused = await served.call(me);
    expect(refused.headers['retry-after']).toBe('40');
    expect(refused.json).toEqual({
      error: expect.any(String),
      code: 'ERR_RATE_LIMIT',
      params: { retryAfter: 40 },
    });
    now += 39_999;
    expect(await statuses(me, 1)).toEqual([429]);
    now += 1;
    expect(await statuses(me, 3)).toEqual([200, 200, 429]);
    expect(served.sandbox.requests().byOutcome).toEqual({
      'getCurrentAccount 200': 5,
      'getCurrentAccount 429': 4,
    });
  });

  test('repeated excess blocks the address, whichever token it comes with', async () => {
    await served.close();
    let now = Date.UTC(2026, 0, 1);
    served = await serveEmpty({
      now: () => now,
      settings: { requestsPerMinute: 2, block: { refusals: 3, forMs: 300_000 } },
    });
    const me = 'GET /api/v1/me';
    expect(await statuses(me, 5)).toEqual([200, 200, 429, 429, 429]);
    const blocked = await served.call(me, { token: 'another' });
    expect(blocked).toMatchObject({
      status: 429,
      json: { code: 'ERR_ADDRESS_BLOCKED', params: { retryAfter: 300 } },
      headers: { 'retry-after': '300' },
    });
    now += 299_999;
    expect((await served.call(me)).headers['retry-after']).toBe('1');
    now += 1;
    expect(await statuses(me, 3)).toEqual([200, 200, 429]);
  });

  test('with --rpm alone, the hundredth refusal in a row blocks for a minute', async () => {
    await served.close();
    let now = Date.UTC(2026, 0, 1);
    served = await serveEmpty({ now: () => now, settings: { requestsPerMinute: 1 } });
    const me = 'GET /api/v1/me';
    await statuses(me, 1);
    now += 30_000;
    await statuses(me, 99);
    const last = await served.call(me);
    expect(last).toMatchObject({ json: { code: 'ERR_ADDRESS_BLOCKED' } });
    expect(last.headers['retry-after']).toBe('60');
  });

  test('an answer is held back for the latency', async () => {
    await served.close();
    served = await serveEmpty({ settings: { latencyMs: 30 } });
    const started = performance.now();
    expect((await served.call('GET /api/v1/me')).status).toBe(200);
    expect(performance.now() - started).toBeGreaterThanOrEqual(29);
  });
});
