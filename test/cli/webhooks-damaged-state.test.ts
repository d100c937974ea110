import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openState } from '../../src/core/state.ts';
import { storeDeliveries } from '../../src/daemon/delivery-watch.ts';
import { type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';
import { jsonLines, mailkeep, workplace } from './child.ts';
import { bothSurfaces } from './platform-config.ts';

const ADA = 'ada@example.org';

let here: Hooked;
beforeEach(async () => {
  here = await hooked();
});
afterEach(() => here.close());

describe.each([
  ['the mailbox surface', () => workplace(here.served.sandbox)],
  ['the platform surface', () => bothSurfaces(here.served.sandbox)],
])('webhooks are listed over %s', (_, place) => {
  test.each([
    [
      'whose rows cannot be read',
      (file: string) => writeFileSync(file, readFileSync(file).fill(0xff, 4_096)),
    ],
    ['that is no database', (file: string) => writeFileSync(file, 'no database')],
  ])('with a state %s, with a warning', async (__, damage) => {
    const at = place();
    const webhooks = (...args: string[]) => mailkeep(['webhooks', ...args, '--config', at.config]);
    const { id } = await here.createHook('http://127.0.0.1:9/');
    mkdirSync(at.data, { recursive: true });
    const file = path.join(at.data, 'state.sqlite');
    const state = openState(at.data);
    const entry = { at: Date.now(), mailbox: ADA, url: 'http://127.0.0.1:9/', success: true };
    storeDeliveries(state, 'main', [{ ...entry, attempts: 1, mostAttempts: 6, durationMs: 1 }]);
    state.close();
    const before = await webhooks('list');
    expect([before.code, before.stderr]).toEqual([0, '']);
    damage(file);
    const bytes = readFileSync(file);
    const table = await webhooks('list');
    expect([table.code, table.stdout]).toEqual([0, before.stdout]);
    expect(table.stderr).toMatch(
      /^warning: The deliveries stored by the daemon were not read\. The state .*state\.sqlite .*\.\n$/,
    );
    const lines = await webhooks('list', '--json');
    expect(lines.code).toBe(0);
    expect(jsonLines(lines.stderr)).toEqual([
      { warning: expect.objectContaining({ code: 'deliveries-unread' }) },
    ]);
    expect(jsonLines(lines.stdout)).toEqual([expect.objectContaining({ id })]);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });
});
