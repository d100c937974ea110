import { afterEach, beforeEach, expect, test } from 'vitest';
import { syncReport } from '../../src/cli/commands/sync.ts';
import { syncExitCode } from '../../src/cli/warnings.ts';
import { EXIT } from '../../src/core/errors.ts';
import { consistencyEquation, consistencyText } from '../../src/core/text.ts';
import { type SyncResult, sumOf } from '../../src/sync/result.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { sumAtService } from '../../src/web/issues.ts';
import { seeded } from '../bench/seeded.ts';
import { Archive } from '../sync/harness.ts';
import { ModelFolder, ModelOrigin, mail } from '../sync/model-origin.ts';

let archive: Archive;
let origin: ModelOrigin;
beforeEach(() => {
  archive = new Archive();
  origin = new ModelOrigin();
  origin.mailbox('AC1', 'ada@example.org', []);
});
afterEach(() => archive.remove());

function boxes(): Map<string, ModelFolder> {
  const box = origin.boxes.get('AC1');
  if (box === undefined) throw new Error('the model has no mailbox');
  return box.folders;
}

function fill(path: string, messages: number): ModelFolder {
  const folder = boxes().get(path) ?? new ModelFolder(path);
  boxes().set(path, folder);
  for (let i = 0; i < messages; i += 1) folder.deliver(mail(`${path} ${folder.nextUid}`));
  return folder;
}

/** Sums of the archive, as `status` and the web interface have them. */
function shown() {
  return archive.reading((catalog) => ({
    status: archiveStatus({ catalog, dataDir: archive.dir }, undefined, 0).sum,
    web: sumAtService(catalog, () => true),
  }));
}

/** The equation of a run at rest: the same on every surface, equal on both sides, true at the service. */
async function expectOneEquation(result: SyncResult, note: readonly unknown[]): Promise<void> {
  const sum = sumOf(result);
  if (sum === null) throw new Error('no folder was compared');
  const there = [...boxes().values()].reduce((total, { messages }) => total + messages.size, 0);
  const { status, web } = await shown();
  const equation = consistencyEquation(sum, sum.originTotal);
  expect([...note, equation.isEqual, equation.atService]).toEqual([...note, true, there]);
  expect([...note, consistencyEquation(status)]).toEqual([...note, equation]);
  expect([...note, consistencyEquation(web)]).toEqual([...note, equation]);
  const text = consistencyText(sum, sum.originTotal);
  expect(syncReport(result)).toContain(`Total: ${text}, in `);
  expect(consistencyText(status)).toBe(text);
  const pending = result.mailboxes.reduce((total, { held }) => total + held, 0);
  expect([...note, pending]).toEqual([...note, equation.pending]);
  expect([...note, syncExitCode(result)]).toEqual([...note, pending > 0 ? EXIT.held : EXIT.done]);
}

test('the first sync after a folder was deleted shows its messages as pending deletions', async () => {
  fill('INBOX', 100);
  fill('INBOX.Old', 75);
  await archive.sync(origin);
  boxes().delete('INBOX.Old');
  const result = await archive.sync(origin);
  await expectOneEquation(result, []);
  expect(syncReport(result)).toContain('ada@example.org: 75 pending deletions;');
  expect(syncReport(result)).toContain(
    'Total: 100 messages at the service = 100 stored; 75 pending deletions, in 2 folders',
  );
});

test('a folder that is back has no pending deletions', async () => {
  fill('INBOX', 10);
  const old = fill('INBOX.Old', 75);
  await archive.sync(origin);
  boxes().delete('INBOX.Old');
  await archive.sync(origin);
  boxes().set('INBOX.Old', old);
  const result = await archive.sync(origin);
  await expectOneEquation(result, []);
  expect(result.mailboxes).toMatchObject([{ held: 0, ended: 0, added: 0 }]);
  expect(result.certificates.every(({ complete }) => complete)).toBe(true);
});

test('a folder that is back after its messages ended is fetched whole in one run', async () => {
  fill('INBOX', 10);
  const old = fill('INBOX.Old', 250);
  await archive.sync(origin);
  boxes().delete('INBOX.Old');
  await archive.sync(origin);
  archive.clock.advance(7 * 3_600_000);
  const gone = await archive.sync(origin);
  expect(gone.mailboxes).toMatchObject([{ held: 0, ended: 250 }]);
  boxes().set('INBOX.Old', old);
  const result = await archive.sync(origin);
  await expectOneEquation(result, []);
  expect(result.mailboxes).toMatchObject([{ held: 0, added: 250 }]);
});

test('after random histories with pending deletions, the sum of each run adds up everywhere', async () => {
  const seed = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.info(`pending deletions: MAILKEEP_SEED=${seed}`);
  const { next: random, below } = seeded('pending deletions', seed);
  const paths = ['INBOX', 'INBOX.Work', 'INBOX.Old', 'INBOX.Lists'];
  let pendingRuns = 0;
  for (let history = 0; history < 5; history += 1) {
    archive.remove();
    archive = new Archive();
    origin = new ModelOrigin();
    origin.mailbox('AC1', 'ada@example.org', []);
    for (const path of paths) fill(path, below(130));
    await archive.sync(origin);
    const removed: ModelFolder[] = [];
    for (let step = 0; step < 7; step += 1) {
      const path = paths[below(paths.length)] ?? 'INBOX';
      const folder = boxes().get(path);
      const act = below(5);
      if (act === 0) fill(path, below(20));
      else if (act === 1 && folder !== undefined && path !== 'INBOX') {
        boxes().delete(path);
        removed.push(folder);
      } else if (act === 2) {
        const back = removed.pop();
        if (back !== undefined && !boxes().has(back.path)) boxes().set(back.path, back);
      } else if (folder !== undefined) {
        const share = act === 3 ? 0.1 : 0.9;
        for (const uid of [...folder.messages.keys()]) {
          if (random() < share) folder.messages.delete(uid);
        }
      }
      if (below(3) === 0) archive.clock.advance(7 * 3_600_000);
      const result = await archive.sync(origin);
      expect([seed, history, step, result.failures]).toEqual([seed, history, step, []]);
      await expectOneEquation(result, [seed, history, step, act, path]);
      if (result.mailboxes.some(({ held }) => held > 0)) pendingRuns += 1;
    }
  }
  expect(pendingRuns).toBeGreaterThan(0);
});
