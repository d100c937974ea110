import { tmpdir } from 'node:os';
import type { Secret } from '../../config/secret.ts';
import { Limiter } from '../../limiter/limiter.ts';
import { openOrigin } from '../compose/origin.ts';
import type { CommandContext } from '../context.ts';

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
  const opened = openOrigin({
    account: {
      name: 'main',
      baseUrl,
      insecure: false,
      token: { kind: 'literal', secret, name: 'given to init' },
    },
    env: context.surroundings.env,
    limiter: new Limiter({ policy: { requestsPerMinute: 60, concurrency: 1 } }),
    spoolDir: tmpdir(),
    // Somebody waits, and the address may be mistyped.
    retries: { attempts: 2 },
  });
  try {
    const reach: Reach[] = [];
    for (const { resourceId, address } of await opened.origin.mailboxes(context.signal)) {
      const { folders } = await opened.origin.folders(resourceId, context.signal);
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
    await opened.close();
  }
}
