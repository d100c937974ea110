import fc from 'fast-check';
import { expect, test } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import {
  appeared,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  START,
  temporaryDir,
} from './history.ts';

const THEIRS = { ...INBOX, mailbox: 'AC2' };
const BASE = (START / 1000) * 64;

/** Ranks of messages in two seconds, by whose they are. */
const ranks = fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 127 }), fc.boolean()), {
  maxLength: 12,
  selector: ([rank]) => rank,
});

test('a list continues behind what it has passed, and positions depend on the own messages only', async () => {
  await fc.assert(
    fc.asyncProperty(ranks, async (all) => {
      const { dir, remove } = temporaryDir();
      const catalog = await openCatalog(dir);
      try {
        const history = new History();
        catalog.foldBatch(
          history.commit([
            ...[mailbox(INBOX, 'one@example.net'), mailbox(THEIRS, 'two@example.net')],
            ...[folder(INBOX), folder(THEIRS)],
            ...all.map(([rank, isOurs], i) =>
              appeared(place(isOurs ? INBOX : THEIRS, i + 1), `${rank}`, { docid: BASE + rank }),
            ),
          ]),
        );
        const ours = all
          .filter(([, isOurs]) => isOurs)
          .map(([rank]) => BASE + rank)
          .toSorted((a, b) => a - b);
        const { positions } = catalog.within([INBOX]);
        for (let docid = BASE - 1; docid <= BASE + 128; docid += 1) {
          for (const [direction, isBehind] of [
            ['newest', (one: number, at: number) => one < at],
            ['oldest', (one: number, at: number) => one > at],
          ] as const) {
            const shown = positions.shown(docid, direction);
            const again = positions.meant(shown, direction);
            const behind = (at: number) => ours.filter((one) => isBehind(one, at));
            expect([docid, direction, behind(again)]).toEqual([docid, direction, behind(docid)]);
            const inSecond = ours.filter((one) => Math.floor(one / 64) === Math.floor(docid / 64));
            // Nothing but a rank among our own: of no message, the one before the first or after the last.
            const rank = shown - Math.floor(docid / 64) * 64;
            expect(rank).toBeGreaterThanOrEqual(-1);
            expect(rank).toBeLessThanOrEqual(inSecond.length);
          }
        }
      } finally {
        catalog.close();
        remove();
      }
    }),
    { numRuns: 25 },
  );
});
