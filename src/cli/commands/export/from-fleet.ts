import { isWithin } from '../../../disk/make-folders.ts';
import { exportTargetInside } from '../../../errors/export.ts';
import { fleetLinkError } from '../../../errors/fleet-links.ts';
import { elsewhereOrigin } from '../../../export/elsewhere/front.ts';
import type { TypedSelection } from '../../../export/elsewhere/wire.ts';
import type { ExportOrigin } from '../../../export/origin.ts';
import { type Conversation, converse } from '../../../fleet/reading/converse.ts';
import { HolderHttp } from '../../../fleet/reading/holder-http.ts';
import { AnswerCut } from '../../../listener/over-stream.ts';
import { withHolder } from '../../ask-fleet.ts';
import type { CommandContext } from '../../context.ts';
import type { WhichAccount } from '../../typed-line.ts';
import { refuseUnknown } from '../../unknown-names.ts';

export interface FleetExport {
  readonly which: WhichAccount;
  readonly typed: TypedSelection;
  readonly ids: AsyncIterable<string> | undefined;
  /** Where it goes: a file or a folder of this machine. */
  readonly to: string;
}

const LINE = { command: 'export', options: [], words: [] } as const;

/**
 * Runs `act` with an account of a fleet as the origin of an export. Its holder chooses and reads; only this side writes.
 *
 * @throws export-target-inside for the folder with the archives of a worker; what asking the holder and `act` throw;
 *   fleet-answer-cut
 */
export async function withAccountElsewhere<T>(
  context: CommandContext,
  { which, typed, ids, to }: FleetExport,
  act: (origin: ExportOrigin) => Promise<T>,
): Promise<T> {
  const { notices, signal } = context;
  return withHolder(context, which, LINE, async (options, question, { cache }) => {
    if (isWithin(to, cache)) throw exportTargetInside(to, cache);
    const errors = async (bytes: Buffer) => void notices.stream.write(bytes);
    const holder = new HolderHttp((ending) =>
      whileAsked(signal, ending, (either) => converse(options, question, errors, either)),
    );
    const origin = elsewhereOrigin({
      ask: (request) => holder.fetch(request),
      isCut: (error) => error instanceof AnswerCut,
      ...{ typed, ids },
      onUnknown: (names) => refuseUnknown(names, notices),
    });
    try {
      return await act(origin);
    } catch (error) {
      if (!(error instanceof AnswerCut)) throw error;
      throw fleetLinkError('fleet-answer-cut', { node: holder.node }, error);
    } finally {
      await holder.close();
    }
  });
}

/** An interruption ends the wait for a holder; once there is one, what is under way is finished. */
async function whileAsked(
  interrupted: AbortSignal,
  ending: AbortSignal,
  begin: (signal: AbortSignal) => Promise<Conversation>,
): Promise<Conversation> {
  const waiting = new AbortController();
  const stop = (): void => waiting.abort(interrupted.reason);
  if (interrupted.aborted) stop();
  interrupted.addEventListener('abort', stop);
  try {
    return await begin(AbortSignal.any([waiting.signal, ending]));
  } finally {
    interrupted.removeEventListener('abort', stop);
  }
}
