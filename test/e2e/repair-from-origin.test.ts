import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, type Workplace, workplace } from '../cli/child.ts';

let sandbox: Sandbox;
let place: Workplace;
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 23, mail: { messages: 400 } });
  place = workplace(sandbox);
});
afterEach(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

const sources = (): number => sandbox.requests().byOperation.getMessageSource ?? 0;
const listed = z.object({ id: z.string() });

async function idsByExport(name: string): Promise<string[]> {
  const to = path.join(place.folder, name);
  const output = await mailkeep(['export', '--to', to, '--format', 'eml', '--data', place.data]);
  expect(output.stderr).toBe('');
  return readdirSync(to, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.name.endsWith('.eml'))
    .map((entry) => readFileSync(path.join(entry.parentPath, entry.name)))
    .map((bytes) => createHash('sha256').update(bytes).digest('hex'))
    .sort();
}

test('bytes that are lost here are fetched from the mailbox again, and nothing else is', async () => {
  expect((await mailkeep(['sync', '--config', place.config, '--quiet'])).code).toBe(0);
  const writer = await openLogWriter({ dir: place.data, now: Date.now });
  await writer.rollIfLarger(0);
  await sealClosedSegments({ dir: place.data, before: writer.segment });
  await dropOldGenerations({ dir: place.data, now: Date.now() + 1e9, keepMs: 0 });
  await writer.close();
  const before = await idsByExport('before');
  const file = path.join(place.data, 'log', '0000000001.2.seg');
  const bytes = readFileSync(file);
  // The middle of some block: more than one bit, so that no checksum turns it back.
  bytes.fill(0x55, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 40);
  writeFileSync(file, bytes);
  const broken = await mailkeep(['verify', '--json', '--data', place.data]);
  expect(broken.code).toBe(3);
  const asked = sources();

  const repaired = await mailkeep(['verify', '--repair', '--json', '--config', place.config]);
  const { restored, missing, findings } = z
    .object({
      restored: z.array(z.object({ kind: z.string(), hash: z.string(), from: z.string() })),
      missing: z.array(z.unknown()),
      findings: z.array(z.object({ what: z.string() })),
    })
    .parse(JSON.parse(repaired.stdout));
  expect(missing).toEqual([]);
  // The stretch itself stays damaged, and is reported; no message needs it any more.
  expect(repaired.code).toBe(3);
  expect(new Set(findings.map(({ what }) => what))).toEqual(new Set(['log']));
  expect(restored.length).toBeGreaterThan(0);
  expect(restored.every(({ from }) => from === 'origin')).toBe(true);
  expect(sources() - asked).toBe(restored.length);
  expect(await idsByExport('after')).toEqual(before);
  const list = await mailkeep(['list', '--json', '--data', place.data]);
  const ids = jsonLines(list.stdout).map((line) => listed.parse(line).id);
  expect(ids).toEqual(expect.arrayContaining(restored.map(({ hash }) => hash)));
});
