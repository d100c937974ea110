import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { nearest } from '../../../core/names.ts';
import { counted } from '../../../core/text.ts';
import { fleetError } from '../../../registry/errors.ts';
import { knownNodes } from '../../../registry/overview.ts';
import { drainNode, markDead } from '../../../registry/sessions.ts';
import type { CommandContext } from '../../context.ts';
import { withFleet } from './open-fleet.ts';

export interface DrainLine {
  readonly node?: string;
}

/** `mailkeep fleet drain`: lets the workers of a node, or of all, let go of their accounts. @throws fleet-node-unknown */
export async function drainCommand(
  context: CommandContext,
  { node }: DrainLine,
): Promise<ExitCode> {
  const { output, notices } = context;
  return withFleet(context, async ({ registry }) => {
    await markDead(registry);
    const drained = await drainNode(registry, node);
    if (drained.length === 0 && node !== undefined) {
      const names = (await knownNodes(registry)).map((one) => one.node);
      if (!names.includes(node)) {
        throw fleetError('fleet-node-unknown', { node, suggestion: nearest(node, names) });
      }
    }
    for (const { session, node: of, archives } of drained) {
      await output.line(
        { node: of, session, accounts: archives },
        () =>
          `${of} takes nothing more and lets go of ${counted(archives, 'account')}, each after its pass.`,
      );
    }
    if (drained.length === 0) {
      notices.say(`No worker is running${node === undefined ? '' : ` on ${node}`}.`);
    }
    return EXIT.done;
  });
}
