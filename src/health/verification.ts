import type { StateFile } from '../catalog/state.ts';
import type { VerificationFacts } from './facts.ts';

const SCOPE = 'verification';
const KEY = 'last';

/** Remembers that every byte of the archive was read again, and whether all of it was as it was written. */
export function rememberVerification(
  state: Pick<StateFile, 'set'>,
  { at, ok }: VerificationFacts,
): void {
  state.set(SCOPE, KEY, { at, ok });
}

/** The last verification, or null where none is remembered. */
export function recalledVerification(
  state: Pick<StateFile, 'read'> | undefined,
): VerificationFacts | null {
  return state?.read(SCOPE, KEY, verificationIn) ?? null;
}

/** By hand: the schema library would slow reading commands down. */
function verificationIn(value: unknown): VerificationFacts | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'ok' in value)) return undefined;
  const { at, ok } = value;
  return typeof at === 'number' && typeof ok === 'boolean' ? { at, ok } : undefined;
}
