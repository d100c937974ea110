import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { writeMessage } from '../../src/sandbox/generated-mail.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, program, type Workplace, workplace } from '../cli/child.ts';

/** Every so many messages goes out through a process of its own; all of them through the reader. */
const SHOWN = 40;

/** Stands in for real mail where there is none. */
const MAIL = {
  seed: 7,
  documentSeed: 7,
  count: 400,
  owner: 'ada@example.org',
  newest: Date.UTC(2026, 0, 1),
};

let folder: string | undefined;
let sandbox: Sandbox;
let place: Workplace;
/** SHA-256 of every file that was served, with how often it was. */
const served = new Map<string, number>();

const certificates = z.array(
  z.object({ complete: z.boolean(), originTotal: z.number(), stored: z.number() }),
);
const syncResult = z.object({
  failures: z.array(z.unknown()),
  requests: z.number(),
  requestsByOperation: z.record(z.string(), z.number()),
  certificates,
});
const listLine = z.object({ id: z.string(), size: z.number(), folder: z.string() });

function filesIn(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => path.join(entry.parentPath, entry.name));
}

beforeAll(async () => {
  let from = process.env.MAILKEEP_CORPUS;
  if (from === undefined) {
    from = folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-mail-'));
    for (let i = 0; i < MAIL.count; i += 1) {
      writeFileSync(path.join(from, `${i}.eml`), writeMessage(MAIL, i));
    }
  }
  for (const file of filesIn(from)) {
    const hash = createHash('sha256').update(readFileSync(file)).digest('hex');
    served.set(hash, (served.get(hash) ?? 0) + 1);
  }
  sandbox = await startSandbox({ from: [from] });
  place = workplace(sandbox);
});

afterAll(async () => {
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

describe('a mailbox that goes through the archive', () => {
  it('comes out bit for bit, all of it listed, for the floor of requests', async () => {
    const total = [...served.values()].reduce((sum, count) => sum + count, 0);
    const { code, stdout, stderr } = await mailkeep(['sync', '--json', '--config', place.config]);
    expect(stderr).not.toContain('error');
    expect(code).toBe(0);
    const result = syncResult.parse(JSON.parse(stdout));
    expect(result.failures).toEqual([]);
    expect(result.certificates.every(({ complete }) => complete)).toBe(true);
    const floor = total + Math.ceil(total / 100) + 1 + sandbox.mailboxes.length;
    expect(result.requests).toBeLessThanOrEqual(Math.ceil(1.02 * floor));
    // The service counts for itself.
    expect(sandbox.requests().total).toBe(result.requests);

    const listed = await mailkeep(['list', '--json', '--data', place.data]);
    const lines = jsonLines(listed.stdout).map((line) => listLine.parse(line));
    const ids = new Map<string, number>();
    for (const { id } of lines) ids.set(id, (ids.get(id) ?? 0) + 1);
    expect(ids).toEqual(served);

    const catalog = openCatalogReader(place.data);
    const reader = openLogReader({ dir: place.data, locator: catalog.locator });
    for (const id of served.keys()) {
      expect(createHash('sha256').update(reader.readMessage(id)).digest('hex')).toBe(id);
    }
    reader.close();
    catalog.close();
  });

  it('comes out of show --raw as it went in', async () => {
    const ids = [...served.keys()].filter((_, i) => i % Math.ceil(served.size / SHOWN) === 0);
    for (const id of ids) {
      const shown = spawnSync(
        process.execPath,
        [program, 'show', id.slice(0, 16), '--raw', '--data', place.data],
        { maxBuffer: 256 * 1024 * 1024 },
      );
      expect(shown.status).toBe(0);
      expect(createHash('sha256').update(shown.stdout).digest('hex')).toBe(id);
    }
  });

  it('fetches nothing again', async () => {
    const before = sandbox.requests().byOperation.getMessageSource ?? 0;
    const { code } = await mailkeep(['sync', '--json', '--config', place.config]);
    expect(code).toBe(0);
    expect((sandbox.requests().byOperation.getMessageSource ?? 0) - before).toBe(0);
  });
});
