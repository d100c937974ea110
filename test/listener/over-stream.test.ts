import { afterEach, describe, expect, test } from 'vitest';
import { ResponseCutOff, type StreamClient } from '../../src/core/listener.ts';
import { type Answer, bothEnds } from './both-ends.ts';

const open: StreamClient[] = [];
afterEach(() => {
  for (const over of open.splice(0)) over.close();
});

function between(seed: number, answer: Answer, onIdle = (): void => {}) {
  const ends = bothEnds(seed, answer, onIdle);
  open.push(ends.over);
  return ends;
}

/** A body without an end. */
const endless = (before = (): void => {}) =>
  new ReadableStream({
    async pull(controller) {
      controller.enqueue(new Uint8Array(1_000));
      before();
      await new Promise((resolve) => setImmediate(resolve));
    },
  });

const asked = (path: string, init?: RequestInit) => new Request(`http://archive${path}`, init);

describe('HTTP over one stream', () => {
  test.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'brings every answer whole, whatever pieces it comes in (seed %i)',
    async (seed) => {
      const { over } = between(seed, async (request) => {
        const { pathname, searchParams } = new URL(request.url);
        const size = Number(searchParams.get('size'));
        const status = Number(searchParams.get('status') ?? 200);
        const headers = new Headers([
          ['set-cookie', 'a=1'],
          ['set-cookie', 'b=2'],
          ['x-asked', `${request.method} ${pathname} ${request.headers.get('x-who')}`],
        ]);
        const sent = request.method === 'POST' ? await request.text() : 'x'.repeat(size);
        return new Response(status === 200 ? sent : null, { status, headers });
      });
      const sizes = [0, 1, 3, 1_000, 70_000, 300_000];
      const answers = await Promise.all(
        sizes.map(async (size) => {
          const answer = await over.fetch(asked(`/a?size=${size}`, { headers: { 'x-who': 'me' } }));
          const cookies = answer.headers.getSetCookie();
          expect([cookies, answer.headers.get('x-asked')]).toEqual([['a=1', 'b=2'], 'GET /a me']);
          return (await answer.text()).length;
        }),
      );
      expect(answers).toEqual(sizes);
      const body = 'y'.repeat(50_000);
      const posted = await over.fetch(asked('/b', { method: 'POST', body }));
      expect(await posted.text()).toBe(body);
      expect((await over.fetch(asked('/c', { method: 'HEAD' }))).body).toBeNull();
      expect((await over.fetch(asked('/d?status=304'))).status).toBe(304);
    },
  );

  test('an answer that breaks off, and one whose stream ends, is no whole one', async () => {
    let hasBegun = false;
    const { over, ended, there } = between(9, async (request, breakOff) => {
      const isBroken = request.url.endsWith('/broken');
      return new Response(
        endless(() => {
          if (isBroken && hasBegun) breakOff();
        }),
      );
    });
    const broken = await over.fetch(asked('/broken'));
    hasBegun = true;
    await expect(broken.arrayBuffer()).rejects.toThrow(ResponseCutOff);
    over.close();
    there.end();
    await ended;

    for (const end of ['ours', 'theirs', 'both'] as const) {
      const cut = between(11, async () => new Response(endless()));
      const answer = await cut.over.fetch(asked('/'));
      const all = [
        expect(answer.arrayBuffer()).rejects.toThrow(ResponseCutOff),
        expect(cut.over.fetch(asked('/'))).rejects.toThrow(ResponseCutOff),
      ];
      if (end !== 'theirs') cut.over.close();
      if (end !== 'ours') cut.back.destroy();
      await Promise.all(all);
      expect(cut.over.hasEnded).toBe(true);
      cut.there.end();
      await cut.ended;
    }
  });

  test('whoever leaves ends the answer, and is not counted any more', async () => {
    let cancelled = (): void => {};
    const left = new Promise<void>((resolve) => {
      cancelled = resolve;
    });
    let idle = (): void => {};
    const rests = new Promise<void>((resolve) => {
      idle = resolve;
    });
    const { over } = between(
      10,
      async () =>
        new Response(
          new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(9)), cancel: cancelled }),
        ),
      () => idle(),
    );
    const leaving = new AbortController();
    const answer = await over.fetch(asked('/', { signal: leaving.signal }));
    expect(over.open).toBe(1);
    leaving.abort();
    await left;
    await rests;
    await expect(answer.arrayBuffer()).rejects.toThrow();
    expect(over.open).toBe(0);
  });
});
