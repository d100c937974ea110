import { realFiles, requireArchive } from '../../archive/file-system.ts';
import { DEFAULT_CODEC } from '../../archive/payload.ts';
import { checkFormat } from '../../archive/recovery.ts';
import { locateCodec, locateDataDir } from '../../core/config-locate.ts';
import { describeError, EXIT, type ExitCode } from '../../core/errors.ts';
import { bytes, count, counted, span } from '../../core/text.ts';
import { type CompactResult, compactArchive, planCompaction } from '../../verify/compact.ts';
import { action, type CommandContext, type Flags, type Register } from '../context.ts';
import type { Report } from '../output.ts';

const HELP = `
Rewrites closed segments of the log whose compression differs from the current configuration (archive.codec:
zstd or zlib). A log written before mailkeep supported zstd shrinks by about a tenth. Every segment is written
next to the old one, read back and compared record by record before it replaces it, so an interruption or a
full disk costs nothing: run the command again to continue. A second run finds nothing to do. It needs disk
space for one segment at a time.

The archive must not be in use: while a daemon runs, the command exits with code 5. Stop the daemon, or set
archive.compact in its configuration to let it compact when it is idle. No network is needed.

The first segment with zstd raises the archive to format 2, which older versions of mailkeep refuse. Restart
older programs that read the archive. A damaged segment stays as it is and is named, and the command exits
with code 3.

EXAMPLES
  mailkeep compact --dry-run
  mailkeep compact
  mailkeep compact --data /var/lib/mailkeep --json`;

export const register: Register = (command, run) => {
  command
    .option('--dry-run', 'show what would be rewritten, and change nothing')
    .addHelpText('after', HELP)
    .action(action(run, compact));
};

const REPORT_EVERY_MS = 5_000;

/**
 * @throws usage-no-archive, archive-in-use, network-file-system, archive-format-newer: nothing was changed
 * @throws disk-full and other write errors: rewritten segments are kept; run the command again to resume
 */
async function compact(
  context: CommandContext,
  { dryRun = false }: Flags<'dryRun'>,
): Promise<ExitCode> {
  const { globals, environment, output, notices, now } = context;
  const dir = locateDataDir(globals, environment);
  const codec = locateCodec(globals, environment) ?? DEFAULT_CODEC;
  requireArchive(dir);
  checkFormat(realFiles, dir);
  const startedAt = now();
  let reportedAt = startedAt;
  const result = dryRun
    ? planCompaction(dir, codec)
    : await compactArchive(context, dir, codec, (examined, of) => {
        if (now() - reportedAt < REPORT_EVERY_MS) return;
        reportedAt = now();
        notices.say(`rewrote ${count(examined)} of ${counted(of, 'segment')}`);
      });
  const durationMs = now() - startedAt;
  const damaged = result.damaged.map(({ code, facts }) => ({ code, ...facts }));
  await output.object({ ...result, damaged, durationMs }, () => report(result, durationMs));
  if (result.interrupted) return EXIT.interrupted;
  return result.damaged.length > 0 ? EXIT.damage : EXIT.done;
}

function report(result: CompactResult, durationMs: number): Report {
  const { codec, dryRun, segments, bytesBefore, bytesAfter, remaining, interrupted, damaged } =
    result;
  const rewritten = `${counted(segments, 'segment')} (${bytes(bytesBefore)})`;
  const isNothing = segments === 0 && remaining === 0;
  const after = bytesAfter === null ? '' : `, which take ${bytes(bytesAfter)} now`;
  return [
    // Damaged segments are listed separately, because their codec is unknown.
    isNothing && damaged.length === 0 && `Every sealed segment has ${codec} already.`,
    !isNothing && dryRun && `Would rewrite ${rewritten} with ${codec}.`,
    !isNothing && !dryRun && `Rewrote ${rewritten} with ${codec}${after}, in ${span(durationMs)}.`,
    interrupted &&
      `Interrupted: ${counted(remaining, 'segment')} left. The same command continues.`,
    damaged.map((error) => `DAMAGED ${describeError(error).message}`),
  ];
}
