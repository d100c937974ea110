import { afterEach, beforeEach, expect, test } from 'vitest';
import { fixture, samples } from '../../wire/sample.ts';
import { validRequest } from './cases.ts';
import { shapeProblems } from './shape.ts';
import { TABLE } from './table.ts';
import { callRow, type World, world } from './world.ts';

/** The samples were written by hand: a wrong schema that client and service share shows here. */
let w: World;
beforeEach(async () => {
  w = await world();
});
afterEach(() => w.close());

test.each(TABLE)('$surface $name answers in the shape of its sample', async (row) => {
  const sample = samples(row.surface).get(row.name);
  // A delivery, so that the log has an entry.
  await w.served.call(`POST ${w.served.m}/webhooks/${w.values.webhookId}/test`);
  // The sample of the bulk change is the one that failed for some.
  const bulk = { body: { uids: [1, 9], addFlags: ['\\Seen'] } };
  const request = row.name === 'updateMessageFlags' ? bulk : validRequest(row);
  const answer = await callRow(w, row, request);
  expect(answer.status).toBe(sample?.response.status);
  const { contentType, body } = sample?.response ?? {};
  if (contentType !== undefined) {
    expect(answer.headers['content-type']).toBe(contentType.split(';')[0]);
    expect(answer.bytes.length).toBeGreaterThan(0);
  } else if (body === undefined) expect(answer.bytes).toHaveLength(0);
  else {
    expect(shapeProblems(body, answer.json)).toEqual([]);
    const data = answer.json !== null && typeof answer.json === 'object' && 'data' in answer.json;
    if (data) expect(answer.json).not.toHaveProperty('data', []);
  }
});

test('errors are of the shape of their samples', async () => {
  const errors = fixture('errors');
  const mailbox = (await w.served.call(`GET ${w.served.m}/folders?page=0`)).json;
  const platform = (
    await w.served.call(`GET /api/mail/v1/orders/${w.values.orderId}/webhooks?page=0`, {
      token: w.served.sandbox.tokens.platform,
    })
  ).json;
  const sampleOf = (surface: string, status: number): unknown => {
    const list: unknown = Object.entries(errors ?? {}).find(([name]) => name === surface)?.[1];
    if (!Array.isArray(list)) throw new Error(`no errors of ${surface}`);
    return list.find((error) => error.status === status).body;
  };
  expect(shapeProblems(sampleOf('mailbox', 422), mailbox)).toEqual([]);
  expect(shapeProblems(sampleOf('platform', 422), platform)).toEqual([]);
});

test('the comparison sees what is missing, unknown or of another type', () => {
  const sample = { a: 1, list: [{ b: 'x', from: null }], at: '2026-01-01T00:00:00Z' };
  expect(shapeProblems(sample, sample)).toEqual([]);
  expect(shapeProblems(sample, { ...sample, list: [{ b: 'y', from: { name: 'z' } }] })).toEqual([]);
  expect(shapeProblems(sample, { list: [{ b: 1 }], at: 'yesterday', more: 1 })).toEqual([
    ': a is missing',
    ': more is not of the interface',
    'list[0]: from is missing',
    'list[0].b: integer instead of string',
    'at: string instead of time',
  ]);
});
