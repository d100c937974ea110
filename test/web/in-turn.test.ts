import { createHash } from 'node:crypto';
import { afterAll, expect, test } from 'vitest';
import { Semaphore } from '../../src/core/concurrency.ts';
import { SpareReader } from '../../src/mail/mime-threads.ts';
import { MessageReading } from '../../src/web/mail-pages.ts';
import type { Conversation } from '../../src/web/pages/message-props.ts';
import { type RequestContext, takeTurn } from '../../src/web/request-context.ts';
import type { ServedReader } from '../../src/web/served-archive.ts';
import { letter } from './served.ts';

function held(): { readonly act: () => Promise<string>; readonly end: () => void } {
  let end: () => void = () => {};
  const ended = new Promise<string>((resolve) => {
    end = () => resolve('held');
  });
  return { act: () => ended, end };
}

test('those who wait have their turns in order, also after one that failed', async () => {
  const turns = new Semaphore(1);
  const order: number[] = [];
  const first = held();
  const all = [
    turns.run(first.act),
    turns.run(() => {
      order.push(1);
      throw new Error('failed');
    }),
    turns.run(() => order.push(2)),
  ];
  first.end();
  const outcomes = await Promise.allSettled(all);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(order).toEqual([1, 2]);
});

test('what nobody waits for any more is not begun, and holds up nobody', async () => {
  const turns = new Semaphore(1);
  const first = held();
  const holding = turns.run(first.act);
  const leaving = new AbortController();
  const begun: string[] = [];
  const left = turns.run(() => begun.push('left'), leaving.signal);
  const stayed = turns.run(() => begun.push('stayed'), new AbortController().signal);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  first.end();
  await Promise.all([holding, stayed]);
  expect(begun).toEqual(['stayed']);
  await expect(turns.run(() => begun.push('late'), leaving.signal)).rejects.toThrow('gone');
  await turns.run(() => begun.push('next'));
  expect(begun).toEqual(['stayed', 'next']);
});

test('a request that is left between its turn and its work is not begun', async () => {
  const turns = new Semaphore(1);
  const leaving = new AbortController();
  const left = turns.run(() => 'begun', leaving.signal);
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  expect(await turns.run(() => 'free')).toBe('free');
});

/** A request as far as turns know it. */
function requested(leaving = new AbortController()) {
  const raw = { signal: leaving.signal };
  const body = (_: null, status: number) => new Response(null, { status });
  return { context: { req: { raw }, body } as unknown as RequestContext, leaving };
}

test('an answer that waits holds up no other, and one that nobody waits for is not begun', async () => {
  let end: () => void = () => {};
  const slow = takeTurn(requested().context, async () => {
    await new Promise<void>((resolve) => {
      end = resolve;
    });
    return new Response('slow');
  });
  const quick = await takeTurn(requested().context, () => new Response('quick'));
  expect(await quick.text()).toBe('quick');
  const { context, leaving } = requested();
  let isBegun = false;
  const left = takeTurn(context, () => {
    isBegun = true;
    return new Response('begun');
  });
  leaving.abort();
  expect([(await left).status, isBegun]).toEqual([503, false]);
  end();
  expect(await (await slow).text()).toBe('slow');
});

test('what a request waits for is given up when it is left', async () => {
  const { context, leaving } = requested();
  const left = takeTurn(context, async (signal) => {
    leaving.abort();
    signal.throwIfAborted();
    return new Response('never');
  });
  expect((await left).status).toBe(503);
  await expect(
    takeTurn(requested().context, () => {
      throw new Error('failed');
    }),
  ).rejects.toThrow('failed');
});

const spare = new SpareReader();
afterAll(() => spare.close());

/** A message whose source comes, or never comes. */
function readerOf(source: string | null) {
  const asked = { times: 0 };
  const streamMessage = async function* () {
    asked.times += 1;
    if (source === null) await new Promise(() => {});
    yield Buffer.from(source ?? '');
  };
  const reader = {
    sources: () => ({ streamMessage }),
    catalog: { messages: { docidOf: () => undefined }, history: () => [], lastSeen: () => [] },
  };
  return { reader: reader as unknown as ServedReader, asked };
}

const alone = { all: [], at: 0, found: [] } as unknown as Conversation;

function opened(source: string | null, signal: AbortSignal, view?: string) {
  const { reader, asked } = readerOf(source);
  const id = createHash('sha256')
    .update(source ?? '')
    .digest('hex');
  const opening = new MessageReading(reader, { spare, signal }, null);
  const parameter = (name: string) => (name === 'view' ? view : undefined);
  return { asked, read: opening.message(id, alone, null, parameter) };
}

test('messages that nobody waits for any more let others have their turn', async () => {
  const leaving = new AbortController();
  const left = Array.from({ length: 4 }, () => opened(null, leaving.signal).read);
  const settled = Promise.allSettled(left);
  const next = opened(letter('Ferry', 'When does it leave?'), new AbortController().signal);
  expect(next.asked.times).toBe(0);
  leaving.abort(new Error('left'));
  const open = await next.read;
  expect(open.text[0]?.lines).toEqual(['When does it leave?']);
  for (const outcome of await settled)
    expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'left' } });
});

test('the view of its HTML reads a message once, and knows what it would load', async () => {
  const html = letter('Offer', '<p>Hello</p><img src="//pictures.example.net/a.png">').replace(
    'text/plain',
    'text/html',
  );
  const { asked, read } = opened(html, new AbortController().signal, 'html');
  expect((await read).content).toEqual({
    ...{ view: 'html', isReadable: true },
    remote: { 'pictures.example.net': 1 },
  });
  expect(asked.times).toBe(1);
});
