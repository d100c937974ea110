import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { openState } from '../../src/catalog/state.ts';

it('lets nobody else read the catalog, the state, or what SQLite puts beside them', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-private-'));
  const catalog = await openCatalog(dir);
  const state = openState(dir);
  state.set('scope', 'key', 1);
  const modes = readdirSync(dir).map((name) => [name, statSync(join(dir, name)).mode & 0o777]);
  state.close();
  catalog.close();
  rmSync(dir, { recursive: true, force: true });
  expect(modes.length).toBeGreaterThanOrEqual(4);
  expect(modes.filter(([, mode]) => mode !== 0o600)).toEqual([]);
});
