import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { scanLog } from '../../src/archive/log-reader.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, start, type Workplace, workplace } from '../cli/child.ts';

const MESSAGES = 700;

let sandbox: Sandbox;
let place: Workplace;
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 11, mail: { messages: MESSAGES } });
  place = workplace(sandbox);
});
afterEach(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

const sources = (): number => sandbox.requests().byOperation.getMessageSource ?? 0;

/** Resolves when the service has been asked for `count` sources, or the process has ended by itself. */
async function whenAsked(count: number, ended: Promise<unknown>): Promise<void> {
  let over = false;
  void ended.then(() => {
    over = true;
  });
  while (sources() < count && !over) await new Promise((resolve) => setImmediate(resolve));
}

/** Places that the log itself says have appeared: what a reader of nothing but the log would find. */
async function placesInLog(): Promise<Set<string>> {
  const places = new Set<string>();
  for await (const event of scanLog({ dir: place.data })) {
    if (event.what === 'damage') throw new Error(`damage: ${JSON.stringify(event)}`);
    if (event.what !== 'batch') continue;
    for (const record of event.batch.records) {
      if (record.kind !== 'fact' || record.fact.fact !== 'appeared') continue;
      const { mailbox, folder, uid } = record.fact;
      places.add(JSON.stringify([mailbox, folder, uid]));
    }
  }
  return places;
}

const result = z.object({
  mailboxes: z.array(z.object({ added: z.number() })),
  certificates: z.array(z.object({ complete: z.boolean(), stored: z.number() })),
});

describe('kill -9', () => {
  it('at many moments of a sync loses nothing that was committed, and nothing committed is fetched again', async () => {
    let committed = new Set<string>();
    for (const after of [1, 40, 90, 30, 150, 200]) {
      const { child, ended } = start(['sync', '--config', place.config, '--quiet']);
      await whenAsked(sources() + after, ended);
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      await ended;
      const now = await placesInLog();
      for (const known of committed) expect(now.has(known)).toBe(true);
      committed = now;
    }
    expect(committed.size).toBeGreaterThan(0);
    expect(committed.size).toBeLessThan(MESSAGES);
    const before = sources();
    const { code, stdout } = await mailkeep(['sync', '--json', '--config', place.config]);
    expect(code).toBe(0);
    expect(sources() - before).toBe(MESSAGES - committed.size);
    const { certificates } = result.parse(JSON.parse(stdout));
    expect(certificates.every(({ complete }) => complete)).toBe(true);
    expect(certificates.reduce((sum, { stored }) => sum + stored, 0)).toBe(MESSAGES);
    expect((await placesInLog()).size).toBe(MESSAGES);
  });
});
