import { hash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ran } from '../cli/surface.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-forget-imported-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('what was imported only is not said to be at a service', async () => {
  const raw = 'Subject: from an old backup\r\n\r\nhello\r\n';
  const file = path.join(folder, 'old.eml');
  writeFileSync(file, raw);
  const data = path.join(folder, 'data');
  expect(await ran(['import', '--data', data, file, '--quiet'])).toMatchObject({ code: 0 });
  const id = hash('sha256', raw);
  const gone = await ran(['forget', '--data', data, id, '--yes', '--quiet']);
  expect(gone).toEqual({
    code: 0,
    stdout: `Forgotten: 1 message (${id.slice(0, 12)}).\n`,
    stderr: '',
  });
});
