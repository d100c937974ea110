import { scrypt } from 'node:crypto';
import { promisify } from 'node:util';

/** How much a guess of a passphrase costs (RFC 7914). */
export interface ScryptCost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

/** 128 MiB, and some tenths of a second. */
export const SCRYPT_COST: ScryptCost = { N: 2 ** 17, r: 8, p: 1 };
/** What is read comes from a place that is not trusted: 1 GiB at the most. */
const LARGEST: ScryptCost = { N: 2 ** 20, r: 8, p: 4 };
const SMALLEST_N = 2 ** 10;

const derive = promisify<Buffer, Buffer, number, object, Buffer>(scrypt);

/** True for a cost that is meaningful and that a machine can afford. */
export function isAffordable({ N, r, p }: ScryptCost): boolean {
  const isPower = Number.isSafeInteger(N) && Math.log2(N) % 1 === 0;
  return (
    isPower && N >= SMALLEST_N && N <= LARGEST.N && isWithin(r, LARGEST.r) && isWithin(p, LARGEST.p)
  );
}

/** Returns 32 bytes that depend on a passphrase, in NFC, and a salt. Runs outside the main thread. */
export async function passphraseKey(
  passphrase: string,
  salt: Buffer,
  { N, r, p }: ScryptCost,
): Promise<Buffer> {
  const maxmem = 128 * r * (N + p + 2) + 1024 * 1024;
  return derive(Buffer.from(passphrase.normalize('NFC'), 'utf8'), salt, 32, { N, r, p, maxmem });
}

function isWithin(value: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= 1 && value <= most;
}
