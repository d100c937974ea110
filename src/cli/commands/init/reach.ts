import { tmpdir } from 'node:os';
import type { Secret } from '../../../config/secret.ts';
import { AccountOrigins } from '../../../engine/origins/account-origins.ts';
import type { CommandContext } from '../../context.ts';

/** What a token shows of one mailbox: its folders and how many messages each says it has. */
export interface Reach {
  readonly resourceId: string;
  readonly address: string;
  readonly folders: readonly { readonly folder: string; readonly messages: number }[];
}

/**
 * Asks the service what the token reaches: one request, and one for each mailbox.
 *
 * @throws what the service refuses, such as auth.refused
 */
export async function reachOf(
  context: CommandContext,
  baseUrl: string,
  secret: Secret,
): Promise<Reach[]> {
  const token = { kind: 'literal', secret, name: 'given to init' } as const;
  const origins = new AccountOrigins({
    accounts: [{ name: 'main', baseUrl, insecure: false, token }],
    rateLimit: { requestsPerMinute: 60, concurrency: 1 },
    env: context.surroundings.env,
    spoolDir: tmpdir(),
    // Somebody waits, and the address may be mistyped.
    retries: { attempts: 2 },
  });
  const [origin] = origins.all().map((account) => origins.fresh(account));
  try {
    const reach: Reach[] = [];
    const listed = await origin?.mailboxes(context.signal);
    for (const { resourceId, address } of listed ?? []) {
      const { folders = [] } = (await origin?.folders(resourceId, context.signal)) ?? {};
      reach.push({
        resourceId,
        address,
        folders: folders.map(({ path, messageCount }) => ({
          folder: path,
          messages: messageCount,
        })),
      });
    }
    return reach;
  } finally {
    await origins.close();
  }
}
