import { expect, test } from 'vitest';
import type { SearchHit } from '../../src/catalog/search.ts';
import { conversationText, roughSpan } from '../../src/web/pages/conversation.tsx';

const HOUR = 3_600_000;

function hit(name: string, address: string, day: number, mailbox = 'ada@example.org'): SearchHit {
  const date = new Date(Date.UTC(2026, 1, day, 12)).toISOString();
  const place = { mailbox, folder: 'INBOX', uid: day, flags: [], date };
  const known = { ...place, firstSeen: date, endedAt: null };
  return {
    docid: day,
    matches: [],
    attachmentMatches: [],
    line: {
      ...known,
      id: 'ab',
      size: 1,
      subject: null,
      from: { name, address },
      messageId: null,
      places: [known],
      snippet: '',
      attachments: [],
      matchedAttachments: [],
    },
  };
}

test('people are counted once, and those who write through a list by their names', () => {
  const hits = [
    hit('Ada', 'ada@example.org', 1),
    hit('Ada', 'ADA@example.org', 2),
    hit('Ben via list', 'list@example.org', 3),
    hit('Cleo via list', 'list@example.org', 4, 'office@example.org'),
  ];
  expect(conversationText(hits, false)).toBe(
    '4 messages of 3 people, 1 Feb 2026 – 4 Feb 2026, in 2 mailboxes',
  );
  expect(conversationText(hits.slice(0, 1), false)).toBe('1 message of 1 person, 1 Feb 2026');
  expect(conversationText(hits, true)).toMatch(/^The first 4 messages of/);
});

test('a span is said in its largest unit, never longer than it is', () => {
  expect(
    [0, 59_999, 17.9 * HOUR, 49 * HOUR, 40 * 24 * HOUR, 800 * 24 * HOUR].map(roughSpan),
  ).toEqual([
    'less than a minute',
    'less than a minute',
    '17 hours',
    '2 days',
    '1 month',
    '2 years',
  ]);
});
