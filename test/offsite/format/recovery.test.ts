import { describe, expect, test } from 'vitest';
import {
  newRecoveryKey,
  parseRecoveryKey,
  parseRecoveryLine,
  RECOVERY_BYTES,
  recoveryLines,
} from '../../../src/copies/format/keys.ts';
import { describeError, MailkeepError } from '../../../src/core/errors.ts';
import { noise } from './sample.ts';

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const key = noise(RECOVERY_BYTES, 'recovery');
const lines = recoveryLines(key);
const text = lines.join('\n');

/** The facts of the error that a text is refused with; undefined if it is taken. */
function refusal(parse: () => unknown): MailkeepError['facts'] | undefined {
  try {
    parse();
    return undefined;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return { code: error.code, ...error.facts };
  }
}

test('a key is read as it is written, and as people write it', () => {
  for (const other of [key, newRecoveryKey(), Buffer.alloc(16), Buffer.alloc(16, 0xff)]) {
    const written = recoveryLines(other);
    for (const line of written)
      expect(line).toMatch(/^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$/);
    expect(parseRecoveryKey(written.join('\n')).equals(other)).toBe(true);
  }
  const forms = [
    text.toLowerCase(),
    text.replaceAll('-', ''),
    text.replaceAll('-', ' - '),
    `\n\n  ${lines.join('\r\n\r\n')}\t\n`,
    lines.join(' '),
    text.replaceAll(/[-\n]/g, ''),
    `${lines[0]} ${lines[1]}\n${lines[2]} ${lines[3]}`,
    text.replaceAll('0', 'o').replaceAll('1', 'l'),
    text.replaceAll('0', 'O').replaceAll('1', 'I'),
  ];
  for (const form of forms)
    expect([form, parseRecoveryKey(form).equals(key)]).toEqual([form, true]);
  expect(Buffer.concat(lines.map((line, index) => parseRecoveryLine(line, index + 1)))).toEqual(
    key,
  );
});

test('keys that were written down stay what they are', () => {
  expect(recoveryLines(Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'))).toEqual([
    '000G-40TY',
    '0G2G-C1YZ',
    '104G-M2R3',
    '1G6G-W3YT',
  ]);
});

describe('a mistake is found, and in the right line:', () => {
  test('every wrong character', () => {
    for (let number = 1; number <= 4; number += 1) {
      const plain = (lines[number - 1] ?? '').replace('-', '');
      for (let at = 0; at < 8; at += 1) {
        for (const digit of DIGITS) {
          if (digit === plain[at]) continue;
          const wrong = `${plain.slice(0, at)}${digit}${plain.slice(at + 1)}`;
          const typed = lines.map((line, index) => (index === number - 1 ? wrong : line));
          expect(refusal(() => parseRecoveryKey(typed.join('\n')))).toMatchObject({
            code: 'copy-recovery-line',
            line: number,
          });
        }
      }
    }
  });

  test('every exchange of two characters', () => {
    for (let seed = 0; seed < 20; seed += 1) {
      const [line = ''] = recoveryLines(noise(RECOVERY_BYTES, `exchange ${seed}`));
      const plain = [...line.replace('-', '')];
      for (let a = 0; a < 8; a += 1) {
        for (let b = 0; b < a; b += 1) {
          if (plain[a] === plain[b]) continue;
          const wrong = plain
            .with(a, plain[b] ?? '')
            .with(b, plain[a] ?? '')
            .join('');
          expect([wrong, refusal(() => parseRecoveryLine(wrong, 1))?.line]).toEqual([wrong, 1]);
        }
      }
    }
  });

  test('lines in another order', () => {
    const [one = '', two = '', three = '', four = ''] = lines;
    const order = (...typed: string[]) => refusal(() => parseRecoveryKey(typed.join('\n')));
    const wrong = { code: 'copy-recovery-line', reason: 'order' };
    expect(order(two, one, three, four)).toEqual({ ...wrong, line: 1, seems: 2 });
    expect(order(one, four, three, two)).toEqual({ ...wrong, line: 2, seems: 4 });
    expect(order(one, two, four, three)).toEqual({ ...wrong, line: 3, seems: 4 });
    expect(order(one, two, three, three)).toEqual({ ...wrong, line: 4, seems: 3 });
  });

  test('missing, added and impossible characters', () => {
    const typed = (line: string) => [lines[0], line, ...lines.slice(2)].join('\n');
    const second = lines[1] ?? '';
    const reasons = [
      second.slice(1),
      `${second}0`,
      `U${second.slice(1)}`,
      `é${second.slice(1)}`,
    ].map((line) => refusal(() => parseRecoveryKey(typed(line))));
    expect(reasons.map((one) => one?.reason)).toEqual([
      'length',
      'length',
      'character',
      'character',
    ]);
    expect(reasons.map((one) => one?.line)).toEqual([2, 2, 2, 2]);
    const shape = { code: 'copy-recovery-shape' };
    expect(refusal(() => parseRecoveryKey(''))).toEqual({ ...shape, lines: 0, characters: 0 });
    expect(refusal(() => parseRecoveryKey(lines.slice(1).join('\n')))).toEqual({
      ...{ ...shape, lines: 3, characters: 24 },
    });
    expect(refusal(() => parseRecoveryKey(`${text}\n${text}`))).toMatchObject(shape);
  });
});

test('no refusal repeats what was typed', () => {
  const wrong = [text.replace(/^./, 'U'), lines.toReversed().join('\n'), text.slice(5)];
  for (const typed of wrong) {
    try {
      parseRecoveryKey(typed);
      expect.unreachable();
    } catch (error) {
      const { message, hint } = describeError(error);
      const shown = `${message} ${hint} ${String(error)}`;
      for (const group of text.split(/[-\n]/)) expect(shown).not.toContain(group);
    }
  }
});
