import { afterEach, beforeEach, expect, test } from 'vitest';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { findMessage } from '../../src/cli/archive.ts';
import { describeError } from '../../src/core/errors.ts';
import {
  appeared,
  folder,
  History,
  INBOX,
  mailbox,
  place,
  sha256,
  temporaryDir,
} from '../catalog/history.ts';

let room: ReturnType<typeof temporaryDir>;
let catalog: WritableCatalog;
let history: History;

beforeEach(async () => {
  room = temporaryDir();
  catalog = await openCatalog(room.dir);
  history = new History();
  catalog.foldBatch(
    history.commit([
      mailbox(INBOX, 'me@example.net'),
      folder(INBOX),
      ...Array.from({ length: 17 }, (_, i) => appeared(place(INBOX, i + 1), `m${i + 1}`)),
    ]),
  );
});
afterEach(() => {
  catalog.close();
  room.remove();
});

const reader = () => ({ catalog, dataDir: room.dir, sources: () => expect.fail(), close() {} });

test('a beginning that many ids share says how many are not listed', () => {
  const many = [...Array(600).keys()].map((i) => `other ${i}`);
  catalog.foldBatch(history.commit(many.map((name, i) => appeared(place(INBOX, i + 18), name))));
  const ids = [...Array.from({ length: 17 }, (_, i) => `m${i + 1}`), ...many].map(sha256);
  const more = ids.filter((id) => id.startsWith('6')).length - 10;
  expect(more).toBeGreaterThan(1);
  let thrown: unknown;
  try {
    findMessage(reader(), '6');
  } catch (error) {
    thrown = error;
  }
  expect(describeError(thrown).message).toMatch(new RegExp(`\\n  and ${more} more$`));
});

test('a beginning that several ids share lists them, with what people know them by', () => {
  const ids = Array.from({ length: 17 }, (_, i) => sha256(`m${i + 1}`));
  // Seventeen ids cannot all begin with another of sixteen digits.
  const digit = [...'0123456789abcdef'].find((d) => ids.filter((id) => id[0] === d).length > 1);
  const shared = ids.filter((id) => id.startsWith(digit ?? '?'));
  let thrown: unknown;
  try {
    findMessage(reader(), digit ?? '');
  } catch (error) {
    thrown = error;
  }
  const { code, message } = describeError(thrown);
  expect(code).toBe('usage-ambiguous-id');
  for (const id of shared) {
    expect(message).toContain(`\n  ${id.slice(0, 8)}  2`);
    expect(message).toContain(`Subject ${ids.indexOf(id) + 1}`);
  }
  for (const id of shared) expect(findMessage(reader(), id.slice(0, 10).toUpperCase())).toBe(id);
});
