import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { CATALOG_VERSION } from '../../src/catalog/database.ts';
import { readState, type ScopeName } from '../../src/core/state.ts';
import { hasTable } from '../../src/core/state-runs.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { readList, unpackArchives } from '../earlier/archives.ts';
import { messageId, serveMail } from '../earlier/mail.ts';

/** Archives that earlier commits made; test/earlier/make.ts says how. */
const archives = [...new Map(readList().map((one) => [one.madeBy, one])).values()];

/** The commits are from November. */
const now = () => Date.UTC(2026, 11, 24);

/** Folder and flags of each message after the second sync. */
const PLACES = {
  walrus: 'INBOX \\Seen',
  narwhal: 'INBOX ',
  odd: 'INBOX \\Flagged',
  orca: 'INBOX.Ocean ',
  manatee: 'INBOX.Calm ',
  beluga: 'INBOX ',
};

let work: string;
let service: Awaited<ReturnType<typeof serveMail>>;

beforeAll(async () => {
  work = mkdtempSync(path.join(tmpdir(), 'earlier-archives-'));
  unpackArchives(work);
  service = await serveMail(work);
  service.change();
});
afterAll(async () => {
  await service.close();
  rmSync(work, { recursive: true });
});

test.concurrent.each(archives)('$madeBy: $subject', async ({ madeBy, steps, messages }) => {
  const data = path.join(work, madeBy);
  const run = (...line: string[]) => mailkeep([...line, '--data', data], { cwd: work, now });
  const on = async (...line: string[]) => {
    const { code, stdout, stderr } = await run(...line);
    expect(code, `${line.join(' ')}: ${stderr}`).toBe(0);
    return stdout;
  };
  const ids = Object.values(messages).sort();
  const isCurrent = versionOf(data) === CATALOG_VERSION;

  // Before any command that writes the state, such as a verification.
  expectStateToBeRead(data);
  const verified = JSON.parse(await on('verify', '--json'));
  expect(verified).toMatchObject({
    ok: true,
    messages: ids.length,
    catalog: isCurrent ? 'equal' : 'other-version',
  });
  const read = await run('list');
  expect([read.code, read.stderr]).toEqual(
    isCurrent ? [0, ''] : [2, expect.stringContaining('"mailkeep sync" or "mailkeep rebuild"')],
  );

  // The memory of its syncs leaves nothing to download.
  if (steps.includes('sync')) {
    const synced = JSON.parse(await on('sync', '--config', 'config.json', '--json', '--quiet'));
    expect(synced).toMatchObject({
      mailboxes: [{ added: 0, bytes: 0, ended: 0, flagsChanged: 0, relinked: 0, held: 0 }],
      sum: { complete: true, originTotal: 5, stored: 4, assumed: 1 },
    });
  } else await on('rebuild');
  expect(versionOf(data)).toBe(CATALOG_VERSION);

  const places = jsonLines(await on('list', '--json')).map(toPlace);
  expect(places.sort()).toEqual(
    Object.entries(PLACES)
      .flatMap(([name, place]) => (name in messages ? [`${messages[name]} ${place}`] : []))
      .sort(),
  );
  const deleted = jsonLines(await on('list', '--deleted', '--json')).map(toPlace);
  expect(deleted).toContain(`${messageId('otter')} INBOX `);
  const found = linesOf(await on('search', 'tusk OR tusks', '--format', 'ids'));
  const withTusks = ['beluga', 'narwhal', 'otter', 'walrus'];
  expect(found).toEqual(withTusks.flatMap((name) => messages[name] ?? []).sort());
  expect(JSON.parse(await on('stats', '--json'))).toMatchObject({
    messages: ids.length,
    bytes: verified.rawBytes,
    deleted: 1,
  });
  for (const id of ids) {
    const { bytes } = await run('show', id, '--raw');
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(id);
  }

  if (steps.includes('saved search')) {
    const saved = linesOf(await on('search', '@tusks', '--format', 'ids'));
    expect(saved).toEqual(linesOf(await on('search', 'tusks', '--format', 'ids')));
  }
  if (steps.includes('token'))
    expect(jsonLines(await on('token', 'list', '--json'))).toMatchObject([{ name: 'laptop' }]);
});

/** Expects every value and run that the earlier program stored to be read. */
function expectStateToBeRead(data: string): void {
  const state = readState(data);
  if (state === undefined) return;
  const database = new Database(path.join(data, 'state.sqlite'), { readonly: true });
  try {
    const values = database.prepare<[], [ScopeName, string, string]>(
      'SELECT scope, key, value FROM remembered',
    );
    for (const [scope, key, value] of values.raw().all()) {
      // Verdicts of earlier versions are converted.
      const stored = { value: scope === 'verification' ? expect.anything() : JSON.parse(value) };
      expect({ value: state.get(scope, key) }, `${scope} ${key}`).toMatchObject(stored);
    }
    if (!hasTable(database, 'runs')) return;
    const runs = database.prepare<[], string>('SELECT run FROM runs ORDER BY id DESC').pluck();
    expect(state.runs.list({ limit: 100 })).toMatchObject(runs.all().map((run) => JSON.parse(run)));
  } finally {
    database.close();
    state.close();
  }
}

function versionOf(data: string): unknown {
  const database = new Database(path.join(data, 'catalog.sqlite'), { readonly: true });
  try {
    return database.pragma('user_version', { simple: true });
  } finally {
    database.close();
  }
}

const placeShape = z.object({ id: z.string(), folder: z.string(), flags: z.array(z.string()) });

function toPlace(line: unknown): string {
  const { id, folder, flags } = placeShape.parse(line);
  return `${id} ${folder} ${flags.join(' ')}`;
}

function linesOf(stdout: string): string[] {
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .sort();
}
