import type { RawAnswer } from '../api/surface-client.ts';
import { Secret } from '../config/secret.ts';
import { reserveSecret, storedWebhooks } from '../config/webhook-secrets.ts';
import { webhookWithSecretRecord } from '../wire/mailbox-records.ts';
import type { Operation } from '../wire/operation.ts';

const RENEWING: ReadonlySet<string> = new Set([
  'regenerateWebhookSecret',
  'platform.regenerateWebhookSecret',
]);

/**
 * Calls an operation; where it renews the secret of a webhook that is stored here, the new one takes the place of the
 * old, which is dead from then on. The place for it is made before the service is asked.
 *
 * @param webhookId as the operation was given it
 * @param onKept hears of the file
 * @throws webhook-secrets-unwritable, webhook-secret-lost, webhook-secret-unreadable, and what `call` throws
 */
export async function keepingSecret(
  dataDir: string,
  operation: Operation,
  webhookId: unknown,
  call: () => Promise<RawAnswer>,
  onKept: (file: string) => void,
): Promise<RawAnswer> {
  const known = RENEWING.has(operation.name)
    ? (await storedWebhooks(dataDir)).find(({ id }) => id === webhookId)
    : undefined;
  if (known === undefined) return call();
  const slot = await reserveSecret(dataDir);
  try {
    const answer = await call();
    const secret = secretIn(answer);
    if (secret !== null) onKept(await slot.keep({ ...known, secret: new Secret(secret) }));
    return answer;
  } finally {
    await slot.drop();
  }
}

const SECRET = webhookWithSecretRecord.pick({ secret: true });

/** The mailbox surface wraps it in `data`, the platform surface does not; null where it comes later (202). */
function secretIn(answer: RawAnswer): string | null {
  if (answer.kind !== 'json') return null;
  const { json } = answer;
  const wrapped: unknown =
    typeof json === 'object' && json !== null && 'data' in json ? json.data : json;
  return SECRET.safeParse(wrapped).data?.secret ?? null;
}
