import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { nearest } from '../../../core/names.ts';
import { counted } from '../../../core/text.ts';
import { fleetError } from '../../../registry/errors.ts';
import { knownNodes } from '../../../registry/overview.ts';
import { markDead, strikeNode } from '../../../registry/sessions.ts';
import type { CommandContext } from '../../context.ts';
import { joinReport } from '../../output.ts';
import { withFleet } from './open-fleet.ts';

export interface NodeRemoveLine {
  readonly diskDestroyed?: boolean;
}

/**
 * `mailkeep fleet node remove`: strikes off a node whose disk is destroyed, so that forgets no longer wait for it.
 *
 * @throws fleet-node-unknown, fleet-node-alive, fleet-disk-not-destroyed
 */
export async function removeNodeCommand(
  context: CommandContext,
  node: string,
  { diskDestroyed = false }: NodeRemoveLine,
): Promise<ExitCode> {
  return withFleet(context, async ({ registry }) => {
    // Otherwise a session that ran out would count as one that lives until a worker looks.
    await markDead(registry);
    const nodes = await knownNodes(registry);
    const known = nodes.find((one) => one.node === node);
    if (known === undefined) {
      const names = nodes.map((one) => one.node);
      throw fleetError('fleet-node-unknown', { node, suggestion: nearest(node, names) });
    }
    if (known.sessions > 0) throw fleetError('fleet-node-alive', { node });
    const { copies, purges } = known;
    if (!diskDestroyed) throw fleetError('fleet-disk-not-destroyed', { node, copies, purges });
    const struck = await strikeNode(registry, node);
    if (struck.outcome === 'fenced') throw fleetError('fleet-node-alive', { node });
    const { archives } = struck;
    await context.output.object({ node, archives, unfinishedForgets: purges }, () =>
      joinReport([
        `Node ${node} is struck off. Its disk may have had copies of ${counted(archives.length, 'account')}. The registry keeps a note of it.`,
        purges > 0 &&
          `${counted(purges, 'forget')} no longer ${purges === 1 ? 'waits' : 'wait'} for it.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}
