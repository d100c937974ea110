import type { Page } from 'playwright-core';
import { z } from 'zod';

/** What a movement costs: script in each frame, milliseconds, and the most rows in the document. */
export interface FrameCosts {
  readonly frames: readonly number[];
  readonly rows: number;
}

const eventSchema = z.looseObject({
  name: z.string(),
  ph: z.string(),
  ts: z.number().default(0),
  dur: z.number().default(0),
  tid: z.number(),
});

/** Script that is entered from outside: what it calls is within. */
const SCRIPT = new Set(['FunctionCall', 'FireAnimationFrame', 'EvaluateScript', 'RunMicrotasks']);
/** What Chromium calls the frames of the main thread; newer ones write the second only. */
const FRAMES = new Set(['BeginMainThreadFrame', 'BeginCommitCompositorFrame']);

/** Records what scripts of the page take from frame to frame while something moves. */
export async function frameCosts(page: Page, act: () => Promise<void>): Promise<FrameCosts> {
  const session = await page.context().newCDPSession(page);
  const events: z.infer<typeof eventSchema>[] = [];
  session.on('Tracing.dataCollected', ({ value }) => {
    for (const event of value) {
      const known = eventSchema.safeParse(event);
      if (known.success) events.push(known.data);
    }
  });
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: {
      includedCategories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'],
    },
  });
  const counting = countRows(page);
  await act();
  const ended = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
  await session.send('Tracing.end');
  await ended;
  await session.detach();
  return { frames: byFrame(events), rows: await counting.most() };
}

/** Adds up the script between the beginnings of frames on the thread that has most of it. */
function byFrame(events: readonly z.infer<typeof eventSchema>[]): number[] {
  const scripts = Map.groupBy(
    events.filter(({ name }) => SCRIPT.has(name)),
    ({ tid }) => tid,
  );
  const [thread] = [...scripts].sort(([, a], [, b]) => b.length - a.length)[0] ?? [];
  const starts = events
    .filter(({ name, tid }) => FRAMES.has(name) && tid === thread)
    .map(({ ts }) => ts)
    .sort((a, b) => a - b);
  const calls = events
    .filter(({ name, ph, tid }) => SCRIPT.has(name) && ph === 'X' && tid === thread)
    .sort((a, b) => a.ts - b.ts);
  const costs = starts.map(() => 0);
  let reached = 0;
  let frame = -1;
  for (const { ts, dur } of calls) {
    while (frame + 1 < starts.length && (starts[frame + 1] ?? 0) <= ts) frame += 1;
    // Within another one.
    if (ts < reached || frame < 0) continue;
    reached = ts + dur;
    costs[frame] = (costs[frame] ?? 0) + dur / 1000;
  }
  return costs;
}

function countRows(page: Page): { most(): Promise<number> } {
  const counting = page.evaluate(() => {
    const seen = { most: 0 };
    Object.assign(window, { benchRows: seen });
    const watch = new MutationObserver(() => {
      seen.most = Math.max(seen.most, document.querySelectorAll('[role=option]').length);
    });
    watch.observe(document.body, { childList: true, subtree: true });
    seen.most = document.querySelectorAll('[role=option]').length;
  });
  return {
    async most() {
      await counting;
      return page.evaluate(
        () => (window as unknown as { benchRows: { most: number } }).benchRows.most,
      );
    },
  };
}
