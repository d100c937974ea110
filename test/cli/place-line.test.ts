import fc from 'fast-check';
import pc from 'picocolors';
import { expect, test } from 'vitest';
import type { Output } from '../../src/cli/output.ts';
import { placeText } from '../../src/cli/output.ts';
import { displayWidth } from '../../src/core/terminal-safe.ts';
import type { PlaceLine } from '../../src/mail/identity.ts';

const place: PlaceLine = {
  id: '3f2a91c4'.repeat(8),
  mailbox: 'ada@example.org',
  folder: 'INBOX.Projects.Größe & Maß',
  uid: 7,
  flags: ['\\Flagged'],
  size: 1,
  date: '2026-03-01T10:00:00.000Z',
  subject: 'A subject of some length, as people write them, and then some more of it',
  from: { name: 'Anna Berg', address: 'anna@example.org' },
  messageId: null,
  firstSeen: null,
  endedAt: null,
};

function output(columns: number, interactive = true): Output {
  const nothing = async (): Promise<void> => {};
  return {
    json: false,
    interactive,
    columns,
    colours: pc.createColors(false),
    object: nothing,
    line: nothing,
    text: nothing,
    bytes: nothing,
    written: nothing,
  };
}

test('a line never passes the edge of the terminal, whatever mail says', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.string({ unit: fc.constantFrom('漢', '字', 'é', '👩‍👩‍👧', '\u001b', 'a', ' ') }),
  );
  fc.assert(
    fc.property(fc.integer({ min: 40, max: 240 }), text, text, text, (columns, a, b, c) => {
      const text = placeText(
        { ...place, subject: a, from: { name: b, address: c }, folder: c },
        output(columns),
      );
      for (const line of text.split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(columns);
    }),
  );
});

test('every line of a list has its columns at the same places', () => {
  const starts = ['INBOX', 'INBOX.A.very.long.path.of.a.folder'].map((folder) =>
    placeText({ ...place, folder }, output(100)).indexOf('A subject'),
  );
  expect(new Set(starts).size).toBe(1);
});

test('elsewhere than on a terminal, folder and id can be read whole', () => {
  const line = placeText(place, output(40, false));
  expect(line).toContain('3f2a91c4 N* Anna Berg');
  expect(line).toContain('INBOX.Projects.Größe & Maß');
});
