import { MailkeepError } from '../core/errors.ts';
import { putSecret, type SealedSecret } from '../registry/fleet.ts';
import { type KeyUse, keyUses, secretsOfOtherKeys } from '../registry/overview.ts';
import type { Registry } from '../registry/registry.ts';
import { type FleetKeys, openSecret, sealSecret } from './secrets.ts';

/** What became of the secrets that an older key had encrypted. */
export interface Rotated {
  /** Encrypted again, by the current key. */
  readonly sealed: number;
  /** Left as they are, because they cannot be decrypted. */
  readonly failed: number;
  /** The first of these failures. */
  readonly failures: readonly MailkeepError[];
  /** Keys other than the current one that secrets still use. */
  readonly older: readonly KeyUse[];
}

const PAGE = 500;
const MOST_FAILURES = 10;

/**
 * Encrypts every secret of a fleet by its current key, one after another. What was done stays if it is interrupted, and the
 * next call continues. A secret that somebody replaces meanwhile is left to them.
 *
 * @param fleet the UUID of the fleet
 * @throws the errors of the registry; the signal's reason
 */
export async function sealWithCurrent(
  registry: Registry,
  fleet: string,
  keys: FleetKeys,
  signal: AbortSignal,
): Promise<Rotated> {
  let [sealed, failed] = [0, 0];
  const failures: MailkeepError[] = [];
  let last: SealedSecret | undefined;
  for (;;) {
    const page = await secretsOfOtherKeys(registry, keys.current, PAGE, last);
    for (const secret of page) {
      signal.throwIfAborted();
      const again = sealedAgain(keys, fleet, secret);
      if (again instanceof MailkeepError) {
        failed += 1;
        if (failures.length < MOST_FAILURES) failures.push(again);
        continue;
      }
      const { outcome } = await putSecret(registry, again, secret.nonce);
      if (outcome === 'committed') sealed += 1;
    }
    last = page.at(-1);
    if (page.length < PAGE) break;
  }
  const older = (await keyUses(registry)).filter(({ keyId }) => keyId !== keys.current);
  return { sealed, failed, failures, older };
}

function sealedAgain(
  keys: FleetKeys,
  fleet: string,
  secret: SealedSecret,
): SealedSecret | MailkeepError {
  const { archive, purpose } = secret;
  try {
    return sealSecret(keys, { fleet, archive, purpose }, openSecret(keys, fleet, secret));
  } catch (error) {
    if (error instanceof MailkeepError) return error;
    throw error;
  }
}
