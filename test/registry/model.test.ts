import { describe, expect, test } from 'vitest';
import { explore } from './model/explore.ts';
import { BOUNDS, BROKEN, IMPORTS } from './model/variants.ts';

const SIZE = process.env.MAILKEEP_MODEL === 'large' ? 'large' : 'small';

/** Wider bounds have millions of states. */
const LIMIT_MS = SIZE === 'large' ? 3_600_000 : 120_000;

describe('the protocol, with every request arriving at any time or never', () => {
  test.each(Object.entries(BOUNDS[SIZE]))(
    'holds within the bounds of "%s"',
    (name, budget) => {
      const { states, steps, broken, happened } = explore(budget);
      console.log(`model ${name}: ${states} states, ${steps} steps`);
      expect(broken).toBeUndefined();
      // Something was refused and something done: an empty exploration would hold as well.
      expect([...happened]).toEqual(expect.arrayContaining(['claim', 'commit', 'roll']));
      if (budget.faults > 0) {
        expect([...happened]).toEqual(expect.arrayContaining(['resolve', 'found']));
      }
      if (budget.uploads > 0) {
        for (const kind of ['register', 'condemn', 'markGone', 'coverChunk', 'coverChunk fenced']) {
          expect(happened).toContain(kind);
        }
      }
      if (budget.purges > 0 && budget.uploads > 0) expect(happened).toContain('endPurge');
      if (budget.asks > 0) {
        expect([...happened]).toEqual(expect.arrayContaining(['askForget', 'settleForgets']));
      }
      if (budget.snapshots > 0) expect(happened).toContain('putSnapshot');
      if (budget.claims > 1 && budget.purges > 0) expect(happened).toContain('leaveCache');
    },
    LIMIT_MS,
  );
});

describe('an import, with every request arriving at any time or never', () => {
  const happenedAnywhere = new Set<string>();

  test.each(Object.entries(IMPORTS[SIZE]))(
    'holds within the bounds of "%s"',
    (name, budget) => {
      const { states, steps, broken, happened } = explore(budget);
      console.log(`model ${name}: ${states} states, ${steps} steps`);
      expect(broken).toBeUndefined();
      for (const kind of happened) happenedAnywhere.add(kind);
      expect([...happened]).toEqual(expect.arrayContaining(['finishImport', 'coverImported']));
    },
    LIMIT_MS,
  );

  test('each of its transactions happens, and is refused', () => {
    const imports = ['trimImport', 'coverImported', 'tailImported', 'finishImport'];
    const refused = imports.map((name) => `${name} fenced`);
    const others = ['beginImport', 'resumeImport', 'callOffImport', 'changeState', 'claim'];
    const wanted = [...imports, ...refused, ...others, 'commit', 'markGone'];
    expect([...happenedAnywhere]).toEqual(expect.arrayContaining(wanted));
  });
});

describe('without one of its rules', () => {
  test.each(BROKEN)(
    '$instead: it is caught',
    ({ variant, within, after, shows }) => {
      const { states, steps, broken } = explore(within, variant, after);
      console.log(`caught after ${states} states, ${steps} steps: ${broken?.promise}`);
      expect(broken?.promise).toMatch(shows);
      // The rule is what keeps the promise: with it, the same bounds hold.
      if (broken !== undefined && SIZE === 'large')
        expect(explore(within, {}, after).broken).toBeUndefined();
    },
    LIMIT_MS,
  );
});
