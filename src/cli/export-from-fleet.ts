import path from 'node:path';
import { z } from 'zod';
import { EXIT, type ExitCode } from '../errors/exit-codes.ts';
import { fleetLinkError } from '../errors/fleet-links.ts';
import type { ExportFailure, ExportResult } from '../export/export-options.ts';
import { receiveZip } from '../export/receive-zip.ts';
import type { AnswerSink } from '../fleet/reading/ask.ts';
import { exportText } from './commands/export/command.ts';
import type { CommandContext } from './context.ts';
import { printErrors, valuesIn } from './holder-said.ts';
import type { TypedLine } from './typed-line.ts';

/** Bytes of standard error that are kept: the result has up to 10,000 failures. */
const MOST_ERRORS = 8 * 1024 * 1024;
/** What the holder has written is a complete zip then; it names what could not be exported. */
const COMPLETE: readonly ExitCode[] = [EXIT.done, EXIT.failures, EXIT.damage];

/**
 * Writes the zip that the holder of an account makes. Only this side writes a file, and only the one that `--to` names.
 *
 * @param ask lets the holder run the command, and returns its exit code
 * @throws fleet-reading-refused for other formats; what `receiveZip` and `ask` throw
 */
export async function exportFromFleet(
  { output, notices, globals, surroundings }: CommandContext,
  { options, ...line }: TypedLine,
  ask: (line: TypedLine, sink: AnswerSink) => Promise<ExitCode>,
): Promise<ExitCode> {
  const typedFor = (name: string) => options.findLast(([one]) => one === name)?.[1] ?? '';
  const format = typedFor('--format');
  if (format !== 'zip') {
    throw fleetLinkError('fleet-reading-refused', { what: `export --format ${format}` });
  }
  const to = path.resolve(surroundings.cwd, typedFor('--to'));
  const rest = options.filter(([name]) => name !== '--to' && name !== '--format');
  const said: Buffer[] = [];
  let bytes = 0;
  let code: ExitCode = EXIT.failures;
  let result: ExportResult | undefined;
  await receiveZip(to, async (write) => {
    const sink: AnswerSink = {
      output: write,
      errors: async (piece) => {
        bytes += piece.length;
        if (bytes <= MOST_ERRORS) said.push(piece);
      },
    };
    code = await ask({ ...line, options: rest }, sink);
    for (const found of valuesIn(said, resultShape)) result = found.result;
    return result !== undefined && COMPLETE.includes(code);
  });
  if (result !== undefined) {
    const shown = { ...result, to };
    await output.object(shown, () => exportText(shown));
    return code;
  }
  const isTold = printErrors(said, notices.stream, globals.json);
  // Not even why: as little as of an answer that was cut off.
  if (!isTold) throw fleetLinkError('fleet-export-incomplete', { to });
  return code;
}

const number = z.int().min(0);
const resultShape = z.object({
  result: z.object({
    ...{ to: z.string(), format: z.literal('zip'), manifest: z.string() },
    commit: z.object({ number, hash: z.string() }),
    asOf: z.object({ number, time: z.string() }).nullable(),
    ...{ places: number, exported: number, bytes: number, skipped: number, kept: number },
    ...{ quarantined: number, damaged: number, purged: number, interrupted: z.boolean() },
    failures: z.array(z.custom<ExportFailure>((value) => failureShape.safeParse(value).success)),
  }),
});
const failureShape = z.object({
  ...{ id: z.string().nullable(), mailbox: z.string(), folder: z.string() },
  ...{ generation: number, uid: number },
  reason: z.enum(['quarantined', 'damaged', 'purged']),
});
