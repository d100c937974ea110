import { hasCode } from '../core/errors.ts';
import { isWithin } from '../core/files.ts';
import { ResponseCutOff } from '../core/listener.ts';
import { elsewhereOrigin, UnusableAnswer } from '../export/elsewhere/front.ts';
import type { TypedSelection } from '../export/elsewhere/wire.ts';
import { fleetLinkError } from '../fleet/errors.ts';
import { pause } from '../fleet/pause.ts';
import { converse } from '../fleet/reading/converse.ts';
import { HolderHttp } from '../fleet/reading/holder-http.ts';
import { exportError } from '../transfer/errors.ts';
import type { ExportOrigin } from '../transfer/export-manifest.ts';
import { refuseUnknown } from './archive.ts';
import { withHolder } from './ask-fleet.ts';
import type { CommandContext } from './context.ts';
import type { AccountOption } from './option-values.ts';

export interface FleetExport {
  readonly which: AccountOption;
  readonly typed: TypedSelection;
  readonly ids: readonly string[] | undefined;
  /** Where it goes: a file or a folder of this machine. */
  readonly to: string;
}

const LINE = { command: 'export', options: [], words: [] } as const;
/** What may be otherwise once another node has taken the account, or its worker runs again. */
const PASSING = [
  'fleet-answer-cut',
  'fleet-no-reader',
  'fleet-node-unreachable',
  'fleet-reading-busy',
  'fleet-reading-moved',
  'fleet-reading-unready',
] as const;

/**
 * Runs `act` with an account of a fleet as the origin of an export. Its holder chooses and reads; only this side writes.
 *
 * @throws export-target-inside for the folder with the archives of a worker; fleet-export-cut, fleet-export-unanswered; what
 *   asking the holder and `act` throw
 */
export async function withAccountElsewhere<T>(
  context: CommandContext,
  { which, typed, ids, to }: FleetExport,
  act: (origin: ExportOrigin) => Promise<T>,
): Promise<T> {
  const { notices, signal } = context;
  return withHolder(context, which, LINE, async (options, question, { cache }) => {
    if (isWithin(to, cache))
      throw exportError('export-target-inside', { target: to, archive: cache });
    const errors = async (bytes: Buffer) => void notices.stream.write(bytes);
    const holder = new HolderHttp((ending) =>
      converse(options, question, errors, AbortSignal.any([signal, ending])),
    );
    const origin = elsewhereOrigin({
      ask: (request) => holder.fetch(request),
      isPassing: (error) =>
        error instanceof ResponseCutOff || PASSING.some((code) => hasCode(error, code)),
      clock: options.monotonic,
      pause: (ms) => pause(options.clock, ms, signal),
      ...{ signal, typed, ids },
      onUnknown: (names) => refuseUnknown(names, notices),
    });
    try {
      return await act(origin);
    } catch (error) {
      throw failureOf(error, holder.node);
    } finally {
      await origin.close();
      await holder.close();
    }
  });
}

/** An answer that was cut off, or was none, as an error of the export. */
function failureOf(error: unknown, node: string): unknown {
  if (error instanceof UnusableAnswer) {
    return fleetLinkError('fleet-export-unanswered', { node, reason: error.message }, error);
  }
  const isCut = error instanceof ResponseCutOff || hasCode(error, 'fleet-answer-cut');
  return isCut ? fleetLinkError('fleet-export-cut', { node }, error) : error;
}
