import { afterEach, beforeEach, expect, test } from 'vitest';
import { syncReport } from '../../src/cli/commands/sync.ts';
import { openState, type StateFile } from '../../src/core/state.ts';
import { consistencyEquation, consistencyText } from '../../src/core/text.ts';
import { type SyncResult, sumOf } from '../../src/sync/result.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { seeded } from '../bench/seeded.ts';
import { Archive } from '../sync/harness.ts';
import { ModelFolder, ModelOrigin, mail, status as refusal } from '../sync/model-origin.ts';

let archive: Archive;
let state: StateFile;
let origin: ModelOrigin;

function start(): void {
  archive = new Archive();
  state = openState(archive.dir);
  archive.memory = state;
  origin = new ModelOrigin();
}
function end(): void {
  state.close();
  archive.remove();
}
beforeEach(start);
afterEach(end);

function filled(path: string, messages: number): ModelFolder {
  const folder = new ModelFolder(path);
  for (let i = 0; i < messages; i += 1) folder.deliver(mail(`${path} ${i}`));
  return folder;
}

/** Runs a sync that is interrupted at a request, if it comes to that. Returns null if it was. */
async function syncUntil(request: number): Promise<SyncResult | null> {
  const controller = new AbortController();
  let left = request;
  origin.before = () => {
    left -= 1;
    if (left === 0) controller.abort();
    controller.signal.throwIfAborted();
  };
  try {
    return await archive.sync(origin, { signal: controller.signal });
  } catch (error) {
    if (!controller.signal.aborted) throw error;
    return null;
  } finally {
    origin.before = () => {};
  }
}

function shown() {
  return archive.reading((catalog) =>
    archiveStatus({ catalog, dataDir: archive.dir }, state, archive.clock.now()),
  );
}

function there(): number {
  const folders = [...origin.boxes.values()].flatMap((box) => [...box.folders.values()]);
  return folders.reduce((total, { messages }) => total + messages.size, 0);
}

test('a first sync that is cut leaves what it has not read to the status', async () => {
  origin.mailbox('AC1', 'ada@example.org', [filled('INBOX', 300), filled('INBOX.Old', 200)]);
  expect(await syncUntil(2)).toBeNull();
  const listed = await shown();
  expect(consistencyText(listed.sum, listed.listed)).toBe(
    '0 stored of 0 messages listed at the service; 1 mailbox has not been read at all',
  );
  expect(await syncUntil(60)).toBeNull();
  const cut = await shown();
  const { stored } = cut.sum;
  expect(stored).toBeGreaterThan(0);
  expect(stored).toBeLessThan(300);
  expect(consistencyText(cut.sum, cut.listed)).toBe(
    `${stored} stored of 500 messages listed at the service; 2 of 2 folders have not been read to the end`,
  );
  expect(cut.mailboxes[0]).toMatchObject({ complete: false, provenAt: null });
  expect(cut.mailboxes[0]?.folders).toMatchObject([
    { folder: 'INBOX', listed: 300, unfinished: true },
    { folder: 'INBOX.Old', listed: 200, unfinished: true },
  ]);
  await archive.sync(origin);
  const whole = await shown();
  expect(consistencyText(whole.sum, whole.listed)).toBe('500 messages at the service = 500 stored');
  expect(whole.mailboxes[0]).toMatchObject({ complete: true });
});

test('a sync that is cut later counts the messages that it has listed and not read', async () => {
  const inbox = filled('INBOX', 10);
  origin.mailbox('AC1', 'ada@example.org', [inbox, filled('INBOX.Old', 5)]);
  await archive.sync(origin);
  for (let i = 0; i < 400; i += 1) inbox.deliver(mail(`later ${i}`));
  expect(await syncUntil(30)).toBeNull();
  const { sum, listed, mailboxes } = await shown();
  expect(consistencyText(sum, listed)).toBe(
    `${sum.stored} stored of 415 messages listed at the service; 1 of 2 folders has not been read to the end`,
  );
  expect(mailboxes[0]).toMatchObject({ complete: false });
});

test('a sync that could not read a folder gives no total', async () => {
  origin.mailbox('AC1', 'ada@example.org', [filled('INBOX', 10), filled('INBOX.Old', 5)]);
  origin.before = (request) => {
    if ('folder' in request && request.folder === 'INBOX.Old') throw refusal(403);
  };
  const result = await archive.sync(origin);
  expect(syncReport(result)).toContain(
    'Total: 10 stored of at least 15 messages at the service; 1 of 2 folders has not been read to the end; ',
  );
  expect(sumOf(result)).toMatchObject({ complete: false });
  const { sum, listed } = await shown();
  expect(consistencyText(sum, listed)).toBe(
    '10 stored of 15 messages listed at the service; 1 of 2 folders has not been read to the end',
  );
});

test('messages that the service counts and does not show make the sides unequal', async () => {
  origin.mailbox('AC1', 'ada@example.org', [filled('INBOX', 10)]);
  origin.omits = ({ uid }) => uid === 4;
  await archive.sync(origin);
  const { sum, listed } = await shown();
  expect(consistencyText(sum, listed)).toBe('10 messages at the service ≠ 9 stored');
});

test('after random histories with cuts, what is claimed to be equal is equal', async () => {
  const seed = Number(process.env.MAILKEEP_SEED ?? Math.floor(Math.random() * 2 ** 31));
  console.info(`unread folders: MAILKEEP_SEED=${seed}`);
  const { below } = seeded('unread folders', seed);
  const paths = ['INBOX', 'INBOX.Work', 'INBOX.Old', 'INBOX.Lists'];
  const seen = { equal: 0, unread: 0 };
  for (let history = 0; history < 12; history += 1) {
    end();
    start();
    for (const [id, address] of [
      ['AC1', 'ada@example.org'],
      ['AC2', 'bea@example.org'],
    ] as const) {
      origin.mailbox(
        id,
        address,
        paths.slice(0, 1 + below(4)).map((path) => filled(path, below(60))),
      );
    }
    for (let step = 0; step < 6; step += 1) {
      const before = origin.requests.length;
      const result = await syncUntil(1 + below(120));
      const listings = origin.requests
        .slice(before)
        .filter(({ operation }) => operation === 'folders').length;
      const { sum, listed, mailboxes } = await shown();
      const { isEqual, unread, atService } = consistencyEquation(sum, listed);
      const note = [seed, history, step];
      if (result !== null) expect([...note, unread]).toEqual([...note, '']);
      if (isEqual) seen.equal += 1;
      if (unread !== '') seen.unread += 1;
      // What the service has is known only if this run listed everything.
      if (isEqual && listings === 2) expect([...note, atService]).toEqual([...note, there()]);
      if (unread !== '') expect(mailboxes.every(({ complete }) => complete)).toBe(false);
      const boxes = [...origin.boxes.values()];
      const box = boxes[below(boxes.length)];
      const path = paths[below(paths.length)] ?? 'INBOX';
      const folder = box?.folders.get(path) ?? new ModelFolder(path);
      box?.folders.set(path, folder);
      for (let i = below(30); i > 0; i -= 1) folder.deliver(mail(`${path} ${step} ${i}`));
      for (const uid of [...folder.messages.keys()])
        if (below(10) === 0) folder.messages.delete(uid);
      if (below(2) === 0) archive.clock.advance(7 * 3_600_000);
    }
  }
  expect(seen.equal).toBeGreaterThan(0);
  expect(seen.unread).toBeGreaterThan(0);
});
