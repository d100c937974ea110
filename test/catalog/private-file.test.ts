import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { openState, readState } from '../../src/core/state.ts';

it('lets nobody else read the catalog, the state, or what SQLite puts next to them', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'mailkeep-private-'));
  const catalog = await openCatalog(dir);
  const state = openState(dir);
  state.set('schedule', 'key', 1);
  const modes = readdirSync(dir).map((name) => [name, statSync(join(dir, name)).mode & 0o777]);
  state.close();
  catalog.close();
  rmSync(dir, { recursive: true, force: true });
  expect(modes.length).toBeGreaterThanOrEqual(4);
  expect(modes.filter(([, mode]) => mode !== 0o600)).toEqual([]);
});

it.skipIf(process.platform === 'win32').each(['pipe', 'folder'])(
  'does not wait for a %s instead of a database',
  async (what) => {
    const dir = mkdtempSync(join(tmpdir(), 'mailkeep-private-'));
    const put = (file: string) =>
      what === 'folder' ? mkdirSync(file) : execFileSync('mkfifo', [file]);
    try {
      put(join(dir, 'catalog.sqlite'));
      await expect(openCatalog(dir)).rejects.toMatchObject({
        code: 'catalog-damaged',
        facts: { file: join(dir, 'catalog.sqlite'), reason: 'not a file' },
      });
      put(join(dir, 'state.sqlite'));
      expect(readState(dir)).toBeUndefined();
      const aside: string[] = [];
      openState(dir, (file) => aside.push(file)).close();
      expect(aside).toEqual([join(dir, 'state.sqlite.damaged-1')]);
      expect(statSync(join(dir, 'state.sqlite')).isFile()).toBe(true);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
);
