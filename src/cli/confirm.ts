import { operationError } from '../errors/usage.ts';
import { terminalAsker } from './ask.ts';
import type { CommandContext } from './context.ts';

/**
 * Asks before something that cannot be undone. Only a typed yes is one.
 *
 * @param lines what would be done, harmless for a terminal
 * @throws operation-needs-yes where there is no terminal, or one that is read by a program
 */
export async function confirmed(
  context: CommandContext,
  act: string,
  lines: readonly string[],
): Promise<boolean> {
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw operationError('operation-needs-yes', { act });
  // A question is no notice: it is shown with --quiet as well.
  context.notices.stream.write(`${lines.join('\n')}\n`);
  const answer = await asker.line('This cannot be undone. Type yes to go on');
  if (/^yes$/i.test(answer)) return true;
  context.notices.say('Nothing was done.');
  return false;
}
