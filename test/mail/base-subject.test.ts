import fc from 'fast-check';
import { expect, test } from 'vitest';
import { baseSubject } from '../../src/mail/identity.ts';

test.each([
  ['Budget', 'Budget', false],
  ['Re: Budget', 'Budget', true],
  ['RE:  re : Budget (fwd)', 'Budget', true],
  ['Re[2]: Budget', 'Budget', true],
  ['Re: [team] Re: Budget', 'Budget', true],
  ['[team] Budget', 'Budget', false],
  ['[team]', '[team]', false],
  ['[Fwd: Budget]', 'Budget', true],
  ['Fw: Fwd: Budget', 'Budget', true],
  ['AW: WG: Haushalt', 'Haushalt', true],
  ['SV: Möte', 'Möte', true],
  ['回复：会议', '会议', true],
  ['Отв: План', 'План', true],
  ['Re:', '', true],
  ['  ', '', false],
  ['Regarding: Budget', 'Regarding: Budget', false],
  ['Respect: a study', 'Respect: a study', false],
])('%j is about %j', (subject, base, reply) => {
  expect(baseSubject(subject)).toEqual({ base, reply });
});

test('answering changes nothing about the base, and taking it twice neither', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 80 }), (subject) => {
      const { base } = baseSubject(subject);
      expect(baseSubject(`Re: ${subject}`)).toEqual({ base, reply: true });
      expect(baseSubject(base).base).toBe(base);
    }),
  );
});

test('a hostile subject costs no time to speak of', () => {
  const subject = '[a] '.repeat(100_000) + 'Re:'.repeat(100_000);
  expect(baseSubject(subject).base.length).toBeLessThan(1_000);
});
