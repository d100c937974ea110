import { expect, test } from 'vitest';
import type { HistoryLine } from '../../src/catalog/messages.ts';
import { historySteps } from '../../src/web/pages/message-pane.tsx';

const line = (day: number, event: string, more: Partial<HistoryLine> = {}): HistoryLine => ({
  time: new Date(Date.UTC(2026, 2, day)).toISOString(),
  commit: day,
  event,
  id: 'ab',
  mailbox: 'ada@example.org',
  folder: 'INBOX',
  generation: 1,
  uid: 7,
  ...more,
});
const lines = [
  line(13, 'appeared', { flags: [] }),
  line(14, 'flags', { flags: ['\\Flagged', '\\Seen'] }),
  line(20, 'flags', { flags: ['\\Flagged', '\\Seen', '$Label1'] }),
  line(30, 'ended', { detail: { reason: 'missing' } }),
];
const at = (day: number) => Date.UTC(2026, 2, day);

test('flags are put in words, and what is unknown of them stays as it is', () => {
  const steps = historySteps(lines, [], at(12), null);
  expect(steps.map(({ title }) => title)).toEqual([
    'Received',
    'Appeared, unread',
    'Read, and starred',
    'Flags changed',
    'Deleted at the service',
  ]);
  expect(steps[3]?.details).toEqual(['flags: \\Flagged \\Seen $Label1']);
  expect(steps[4]).toMatchObject({ kind: 'ended', details: ['no longer at the service'] });
  expect(steps.some(({ isLater }) => isLater)).toBe(false);
});

test('the moment that is shown stands between what happened before it and after', () => {
  const steps = historySteps(lines, [], at(12), at(15));
  expect(steps.map(({ kind, isLater }) => [kind, isLater])).toEqual([
    ['fact', false],
    ['fact', false],
    ['fact', false],
    ['here', false],
    ['fact', true],
    ['ended', true],
  ]);
  expect(historySteps(lines, [], null, at(31)).at(-1)?.kind).toBe('here');
});

test('a move is no deletion', () => {
  const moved = line(30, 'ended', { detail: { reason: 'moved' } });
  expect(historySteps([moved], [], null, null)).toMatchObject([
    { kind: 'fact', title: 'Moved away' },
  ]);
});

test('a deletion knows when the message was last there', () => {
  const [found, seen] = [at(30), at(28)];
  const end = { commit: 30, generation: 1, uid: 7, found, seen };
  const [steps, other] = [end, { ...end, uid: 8 }].map((one) =>
    historySteps(lines, [one], null, null),
  );
  expect(steps?.at(-1)).toMatchObject({ kind: 'ended', seen });
  expect(other?.at(-1)).toMatchObject({ kind: 'ended', seen: null });
});

test('places of one message have flags of their own', () => {
  const steps = historySteps(
    [
      line(1, 'appeared', { flags: ['\\Seen'] }),
      line(2, 'appeared', { folder: 'Work', uid: 1, flags: [] }),
      line(3, 'flags', { folder: 'Work', uid: 1, flags: ['\\Seen'] }),
    ],
    [],
    null,
    null,
  );
  expect(steps.map(({ title }) => title)).toEqual(['Appeared, read', 'Appeared, unread', 'Read']);
});
