import { randomBytes } from 'node:crypto';
import { offsiteError } from '../../errors/offsite.ts';

/** Bytes of a recovery key: 128 random bits. */
export const RECOVERY_BYTES = 16;
/** Lines that people write down. */
export const RECOVERY_LINES = 4;
const LINE_BYTES = RECOVERY_BYTES / RECOVERY_LINES;
const LINE_CHARACTERS = 8;
/** Crockford's base32: no I, L, O, U. */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const MISREAD: Readonly<Record<string, string>> = { I: '1', L: '1', O: '0' };
/** x^8 + x^2 + x + 1 */
const POLYNOMIAL = 0x07;

/** Returns a new recovery key. */
export function newRecoveryKey(): Buffer {
  return randomBytes(RECOVERY_BYTES);
}

/** Returns a recovery key as four lines to be written down. */
export function recoveryLines(key: Buffer): string[] {
  return Array.from(Array(RECOVERY_LINES).keys(), (index) => {
    const data = key.subarray(index * LINE_BYTES, (index + 1) * LINE_BYTES);
    const text = digitsOf(data.readUInt32BE() * 256 + checksum(data, index + 1));
    return `${text.slice(0, 4)}-${text.slice(4)}`;
  });
}

/**
 * Returns the recovery key that was typed. Case, spaces and hyphens do not matter, nor do line breaks if no character is
 * missing.
 *
 * @throws `copy-recovery-shape`, `copy-recovery-line`
 */
export function parseRecoveryKey(text: string): Buffer {
  const lines = text.split('\n').map(withoutSeparators);
  const filled = lines.filter((line) => line !== '');
  const joined = filled.join('');
  const isFourLines = filled.length === RECOVERY_LINES;
  if (!isFourLines && joined.length !== RECOVERY_LINES * LINE_CHARACTERS) {
    const characters = joined.length;
    throw offsiteError('copy-recovery-shape', { lines: filled.length, characters });
  }
  const parts = Array.from(Array(RECOVERY_LINES).keys(), (index) => {
    const from = index * LINE_CHARACTERS;
    const line = isFourLines ? filled[index] : joined.slice(from, from + LINE_CHARACTERS);
    return parseRecoveryLine(line ?? '', index + 1);
  });
  return Buffer.concat(parts);
}

/**
 * Returns the four bytes of one line of a recovery key.
 *
 * @param number of the line, from 1
 * @throws `copy-recovery-line`
 */
export function parseRecoveryLine(text: string, number: number): Buffer {
  const wrong = (reason: 'length' | 'character' | 'checksum') =>
    offsiteError('copy-recovery-line', { line: number, reason, seems: null });
  const characters = [...withoutSeparators(text)].map((one) => MISREAD[one] ?? one);
  if (characters.length !== LINE_CHARACTERS) throw wrong('length');
  let value = 0;
  for (const one of characters) {
    const digit = DIGITS.indexOf(one);
    if (digit < 0) throw wrong('character');
    value = value * DIGITS.length + digit;
  }
  const data = Buffer.alloc(LINE_BYTES);
  data.writeUInt32BE(Math.floor(value / 256));
  const found = value % 256;
  if (found === checksum(data, number)) return data;
  // One of 64 other mistakes looks like this too, so it is only a guess.
  const seems = [1, 2, 3, 4].find((other) => checksum(data, other) === found) ?? null;
  if (seems === null) throw wrong('checksum');
  throw offsiteError('copy-recovery-line', { line: number, reason: 'order', seems });
}

function withoutSeparators(text: string): string {
  return text.replace(/[\s-]/g, '').toUpperCase();
}

function digitsOf(value: number): string {
  let rest = value;
  let text = '';
  for (let n = 0; n < LINE_CHARACTERS; n += 1) {
    text = `${DIGITS[rest % DIGITS.length]}${text}`;
    rest = Math.floor(rest / DIGITS.length);
  }
  return text;
}

/**
 * CRC-8 of a line, which depends on its number. It finds every wrong character, every exchange of two characters or
 * lines, and 255 of 256 other mistakes.
 */
function checksum(data: Buffer, number: number): number {
  let sum = number;
  for (const byte of data) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) {
      sum = (sum & 0x80) === 0 ? sum << 1 : ((sum << 1) ^ POLYNOMIAL) & 0xff;
    }
  }
  return sum;
}
