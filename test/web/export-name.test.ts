import { expect, test } from 'vitest';
import { safeFileName } from '../../src/mail/file-names.ts';
import { exportName, messageName } from '../../src/web/downloads.ts';

const now = new Date(2026, 10, 5, 23, 59).getTime();
const named = (query: string) =>
  safeFileName(exportName(query, { now, commit: 12, format: 'zip' }), {
    fallback: 'x.zip',
    taken: new Set(),
  });

test('a file of exported messages is named by the query, the day and the commit', () => {
  expect(
    [
      '',
      ' * ',
      'from:ada',
      'in:"INBOX/Old mail" -is:deleted',
      'asof:2026-03-01T10:00:00Z',
      'Fähre',
    ].map(named),
  ).toEqual([
    'mailkeep all mail 2026-11-05 commit 12.zip',
    'mailkeep all mail 2026-11-05 commit 12.zip',
    'mailkeep from ada 2026-11-05 commit 12.zip',
    'mailkeep in INBOX Old mail -is deleted 2026-11-05 commit 12.zip',
    'mailkeep asof 2026-03-01T10.00.00Z 2026-11-05 commit 12.zip',
    'mailkeep Fähre 2026-11-05 commit 12.zip',
  ]);
});

test('whatever was asked for, the name is one of a file, and ends with the day', () => {
  for (const query of [
    '../../etc/passwd',
    '..\\..',
    'a\u202Egnp\r\nx: y',
    '<>|?*',
    'ä'.repeat(5_000),
    // Composed, it takes twice the bytes.
    '\u0958'.repeat(60),
    '""',
  ]) {
    const name = named(query);
    expect(name).toMatch(/^mailkeep [^/\\<>:"|?*\p{Cc}\p{Bidi_C}]* 2026-11-05 commit 12\.zip$/u);
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200);
    expect(name).not.toContain('all mail');
  }
});

test('a message is named by its subject and its day in UTC, whatever the zone of the machine', () => {
  for (const date of ['2026-11-05T00:00:00.000Z', '2026-11-05T23:59:59.000Z'])
    expect(messageName('Re: Offer 3/4', date)).toBe('Re Offer 3 4 2026-11-05.eml');
  expect(messageName(' ', null)).toBe('no subject.eml');
  expect(messageName(null, null)).toBe('no subject.eml');
});
