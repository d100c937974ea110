import { copiesError } from '../../errors/copies.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import type { Way } from '../../offsite/format/unlock.ts';

/** What somebody opened a copy with, and who must have begun it. */
export interface OpenedWith {
  readonly way: Way;
  /** Ed25519, 32 bytes, as `copy init` printed it; undefined where the user named none. */
  readonly signer: Buffer | undefined;
}

/**
 * Refuses a copy that another key began than the one that the user named.
 *
 * @throws offsite-signer-differs
 */
export function refuseOtherSigner(
  secrets: CopySecrets,
  { signer }: Pick<OpenedWith, 'signer'>,
  to: string,
): void {
  if (signer === undefined || signer.equals(secrets.signer)) return;
  const [found, wanted] = [secrets.signer.toString('base64'), signer.toString('base64')];
  throw copiesError('offsite-signer-differs', { to, found, wanted });
}

/**
 * The same, and refuses keys of which nothing shows who wrapped them: whoever knows an age recipient can wrap keys of
 * their own for it, and would read everything that is encrypted with those.
 *
 * @throws offsite-signer-unnamed, offsite-signer-differs
 */
export function refuseUnprovenSigner(secrets: CopySecrets, opened: OpenedWith, to: string): void {
  if (opened.way.type === 'age' && opened.signer === undefined) {
    const found = secrets.signer.toString('base64');
    throw copiesError('offsite-signer-unnamed', { to, found });
  }
  refuseOtherSigner(secrets, opened, to);
}
