import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, it } from 'vitest';
import { history } from './history.ts';
import { runHistory } from './run-history.ts';

/** `MAILKEEP_HISTORIES` asks for more; `npm run histories` for the 20,000 of a release. */
const RUNS = Number(process.env.MAILKEEP_HISTORIES ?? 150);

describe('any history', () => {
  it('leaves a mirror that equals the origin after passes at rest', {
    timeout: 3_600_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(history, async (script) => {
        const dir = mkdtempSync(join(tmpdir(), 'mailkeep-history-'));
        try {
          await runHistory(script, dir);
        } finally {
          rmSync(dir, { recursive: true, force: true });
        }
      }),
      { numRuns: RUNS, endOnFailure: process.env.MAILKEEP_NO_SHRINK !== undefined },
    );
  });
});
