import { hasCode } from '../../errors/mailkeep-error.ts';
import { offsiteError } from '../../errors/offsite.ts';
import {
  unwrapWithAge,
  unwrapWithPassphrase,
  unwrapWithRecovery,
  type WrappedKeys,
} from './recipients.ts';
import type { CopySecrets } from './secrets.ts';

/** What somebody opens a copy with. */
export type Way =
  | { readonly type: 'passphrase'; readonly passphrase: string }
  | { readonly type: 'recovery'; readonly recovery: Buffer }
  | { readonly type: 'age'; readonly identities: readonly string[] };

/** Recipients of a type that are tried: more were put there to keep us busy. */
export const MOST_TRIED = 64;

/**
 * Returns the newest secrets that a passphrase, recovery key or identity opens. After a rotation there may be older
 * recipients of the same; they must be of the same copy.
 *
 * @throws `copy-key-refused` or `copy-key-damaged` if none opens; `copy-keys-differ`
 */
export async function unlock(
  recipients: readonly WrappedKeys[],
  way: Way,
  signal?: AbortSignal,
): Promise<CopySecrets> {
  const fitting = recipients.filter(({ type }) => type === way.type);
  if (fitting.length > MOST_TRIED) {
    throw offsiteError('copy-keys-too-many', { type: way.type, found: fitting.length });
  }
  let damage: unknown;
  let newest: { readonly name: string; readonly secrets: CopySecrets } | undefined;
  for (const keys of fitting) {
    signal?.throwIfAborted();
    let secrets: CopySecrets | undefined;
    try {
      secrets = await unwrapWith(keys, way);
    } catch (error) {
      if (!hasCode(error, 'copy-key-damaged')) throw error;
      damage ??= error;
    }
    if (secrets === undefined) continue;
    if (newest !== undefined && !areOfOneCopy(secrets, newest.secrets)) {
      throw offsiteError('copy-keys-differ', { names: [newest.name, keys.name] });
    }
    const isNewer =
      newest === undefined || secrets.privateKeys.length > newest.secrets.privateKeys.length;
    if (isNewer) newest = { name: keys.name, secrets };
  }
  if (newest !== undefined) return newest.secrets;
  if (damage !== undefined) throw damage;
  throw offsiteError('copy-key-refused', { type: way.type, tried: fitting.length });
}

function unwrapWith(keys: WrappedKeys, way: Way): Promise<CopySecrets | undefined> {
  if (way.type === 'passphrase') return unwrapWithPassphrase(keys, way.passphrase);
  if (way.type === 'recovery') return unwrapWithRecovery(keys, way.recovery);
  return unwrapWithAge(keys, way.identities);
}

/** True if one has all private keys of the other, behind those of later rotations, and the rest is equal. */
function areOfOneCopy(one: CopySecrets, other: CopySecrets): boolean {
  const [few, many] = [one.privateKeys, other.privateKeys].toSorted((a, b) => a.length - b.length);
  const older = many?.slice(many.length - (few?.length ?? 0)) ?? [];
  return (
    one.copyId.equals(other.copyId) &&
    one.nameKey.equals(other.nameKey) &&
    one.signer.equals(other.signer) &&
    older.every((key, index) => few?.[index]?.equals(key) === true)
  );
}
