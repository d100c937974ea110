import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { KnownFinding, ScopeName } from '../../src/core/state.ts';
import { openState, type StateFile } from '../../src/core/state.ts';
import {
  recallVerification,
  recordDamage,
  recordExportTest,
  recordVerification,
  type VerificationOutcome,
} from '../../src/verify/verification.ts';

let folder: string;
let state: StateFile;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-health-'));
  state = openState(folder);
});
afterEach(() => {
  state.close();
  rmSync(folder, { recursive: true, force: true });
});

const findings = (count: number, from = 0): KnownFinding[] =>
  Array.from({ length: count }, (_, n) => ({
    what: 'log',
    id: null,
    text: `0000000001.1.seg, bytes ${from + n}`,
  }));
/** Rows of the catalog look alike: what names them is not remembered. */
const rows = (count: number): KnownFinding[] =>
  Array.from({ length: count }, () => ({ what: 'catalog', id: null, text: 'lacking in places' }));

function outcome(
  mode: VerificationOutcome['mode'],
  at: number,
  found: readonly KnownFinding[] = [],
  more: Partial<VerificationOutcome> = {},
): VerificationOutcome {
  const covers = () => mode === 'full' || mode === 'repair';
  const counts = { checked: 5, of: 10, found: found.length };
  return { at, endedAt: at + 50, mode, ...counts, findings: found, covers, ...more };
}
const remember = (...given: Parameters<typeof outcome>): void =>
  recordVerification(state, outcome(...given));
const found = () => recallVerification(state)?.damage?.found ?? 0;

describe('how much damage is known', () => {
  test.each([
    ['more findings than are kept', findings(522), findings(343)],
    ['rows that look alike', rows(70), rows(70)],
    ['more rows than are kept', rows(522), rows(343)],
  ])('does not grow when the same is found again: %s', (_, all, again) => {
    remember('full', 100, all);
    for (const at of [200, 300, 400]) remember('quick', at, again);
    expect(found()).toBe(all.length);
  });

  test('grows by what was not known', () => {
    remember('full', 100, findings(3));
    remember('quick', 200, findings(4, 2));
    expect(found()).toBe(6);
    remember('quick', 300, [...findings(4, 2), ...rows(2)]);
    expect(found()).toBe(8);
    remember('full', 400, findings(150));
    remember('quick', 500, findings(200, 1_000));
    // Of 50 and 200 it is not known whether they are the same: they are not counted twice.
    expect(found()).toBe(300);
    remember('quick', 600, [{ what: 'format', id: null, text: 'the FORMAT file' }]);
    expect(found()).toBe(301);
  });

  test('counts a message once, whatever a command writes about it', () => {
    const id = 'ab'.repeat(32);
    const rebuilt = { what: 'message', id, text: `message ${id}` };
    recordDamage(state, outcome('rebuild', 100, [rebuilt]), 'rebuild');
    remember('quick', 200, [{ what: 'message', id, text: 'message abababababab (hash)' }]);
    expect(found()).toBe(1);
  });
});

describe('verifications that run at the same time', () => {
  test('a long one clears nothing that was found while it ran', () => {
    remember('sample', 200, findings(1));
    remember('full', 100, [], { endedAt: 400 });
    expect(recallVerification(state)).toMatchObject({
      at: 200,
      fullAt: 100,
      ok: false,
      damage: { since: 200, found: 1 },
    });
    remember('full', 500);
    expect(recallVerification(state)).toMatchObject({ at: 500, fullAt: 500, ok: true });
  });

  test('what was found again while it ran stays', () => {
    remember('quick', 50, findings(1));
    remember('quick', 200, findings(1));
    remember('full', 150, [], { endedAt: 400 });
    expect(found()).toBe(1);
  });

  test('so does what another wrote just before', () => {
    remember('quick', 390, findings(1), { endedAt: 401 });
    remember('full', 100, [], { endedAt: 400 });
    expect(found()).toBe(1);
  });

  test('findings that were only counted stay as well', () => {
    remember('quick', 200, findings(150));
    remember('full', 100, [], { endedAt: 400 });
    expect(found()).toBe(150);
    remember('full', 500);
    expect(found()).toBe(0);
  });

  test('times do not go back', () => {
    remember('full', 300);
    remember('full', 100, [], { endedAt: 400 });
    expect(recallVerification(state)).toMatchObject({ at: 300, fullAt: 300 });
  });

  test('a clock that was set back does not keep what it shows for ever', () => {
    remember('full', 9_000_000, findings(1));
    remember('full', 100);
    expect(recallVerification(state)).toMatchObject({ at: 100, fullAt: 100, ok: true });
  });

  test('what one writes does not come between what another reads and writes', () => {
    const other = openState(folder);
    const seen: string[] = [];
    const racing = {
      ...state,
      get: <S extends ScopeName>(scope: S, key: string) => {
        const value = state.get(scope, key);
        // The other waits for the lock, which this thread holds, and gives up.
        try {
          recordVerification({ ...other, together: (act) => act() }, outcome('sample', 150));
          seen.push('written');
        } catch {
          seen.push('refused');
        }
        return value;
      },
    };
    recordVerification(racing, outcome('full', 100));
    other.close();
    expect(seen).toEqual(['refused']);
  }, 60_000);
});

test('a drill replaces no verification, and adds the damage that it met', () => {
  remember('full', 100);
  const drilled = { endedAt: 250, checked: 20, of: 1_000 };
  recordExportTest(state, { at: 200, ...drilled, found: 0, findings: [] });
  const last = { at: 100, mode: 'full', checked: 5, of: 10, fullAt: 100 };
  const drill = { at: 200, checked: 20, of: 1_000 };
  expect(recallVerification(state)).toEqual({ ...last, ok: true, damage: null, drill });
  const lost = { what: 'drill', id: null, text: 'message abc could not be exported' };
  recordExportTest(state, { at: 300, ...drilled, endedAt: 350, found: 1, findings: [lost] });
  expect(recallVerification(state)).toMatchObject({ ...last, ok: false, damage: { found: 1 } });
});

test('a drill of an archive that was never verified is shown', () => {
  recordExportTest(state, { at: 200, endedAt: 250, checked: 20, of: 99, found: 0, findings: [] });
  const last = { at: 200, mode: 'drill', checked: 20, of: 99, fullAt: null };
  expect(recallVerification(state)).toMatchObject({ ...last, ok: true });
});

describe('what an earlier version remembered', () => {
  test('damage stays known until a complete verification clears it', () => {
    state.set('verification', 'last', { at: 100, ok: false });
    expect(recallVerification(state)).toMatchObject({
      ...{ at: 100, fullAt: 100, ok: false },
      damage: { since: 100, found: 1, findings: [{ text: expect.stringContaining('earlier') }] },
    });
    remember('quick', 200);
    expect(found()).toBe(1);
    remember('full', 300);
    expect(found()).toBe(0);
  });

  test('a clean verification was one', () => {
    state.set('verification', 'last', { at: 100, ok: true });
    expect(recallVerification(state)).toMatchObject({ fullAt: 100, ok: true, damage: null });
  });

  test('findings without times are cleared', () => {
    const damage = { since: 100, found: 3, findings: findings(2) };
    const last = { at: 100, mode: 'full', checked: 1, of: 1, fullAt: 100, ok: false };
    state.set('verification', 'last', { ...last, damage });
    expect(found()).toBe(3);
    remember('full', 300);
    expect(found()).toBe(0);
  });
});
