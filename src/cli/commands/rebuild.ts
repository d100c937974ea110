import { requireArchive } from '../../archive/file-system.ts';
import { acquireLock } from '../../archive/lock.ts';
import { readCatalogHead } from '../../catalog/implied.ts';
import { type RebuildResult, rebuildWithExtractors } from '../../catalog/rebuild.ts';
import { locateDataDir } from '../../core/config-locate.ts';
import { EXIT } from '../../core/errors.ts';
import type { KnownFinding } from '../../core/state.ts';
import { count, counted, span } from '../../core/text.ts';
import { recordDamage } from '../../verify/verification.ts';
import { concernsCatalogOnly, writeStateOrWarn } from '../../verify/verify.ts';
import type { CommandContext, Register } from '../context.ts';
import { type Report, shortId } from '../output.ts';
import { openActivity, rebuildProgress } from '../progress.ts';

const HELP = `
Rebuilds the catalog from the log, next to the old one, and replaces the old one when it is complete. The log
is only read. No configuration or network is needed. Damage is named and exits with code 3; the catalog then
contains everything that can be read.

EXAMPLES
  mailkeep rebuild --data /var/lib/mailkeep`;

export const register: Register = (command, run) => {
  command.addHelpText('after', HELP).action(() =>
    run(async (context) => {
      const { globals, environment, output, signal, now } = context;
      const dataDir = locateDataDir(globals, environment);
      requireArchive(dataDir);
      const lock = acquireLock(dataDir);
      const startedAt = now();
      let searchableAt = startedAt;
      const activity = openActivity(context, 'reading the log');
      try {
        const result = await rebuildWithExtractors({
          dir: dataDir,
          signal,
          expected: readCatalogHead(dataDir),
          ...rebuildProgress(activity),
          onSearchable: () => {
            searchableAt = now();
          },
        });
        activity.stop();
        const durationMs = now() - startedAt;
        // Attachment text is extracted last.
        const indexMs = searchableAt - startedAt;
        const timings = { indexMs, attachmentsMs: durationMs - indexMs };
        await output.object({ ...result, timings, durationMs }, () =>
          report(result, durationMs, timings.attachmentsMs),
        );
        rememberRebuild(context, dataDir, { at: startedAt, endedAt: now() }, result);
        return damagesOf(result).length > 0 ? EXIT.damage : EXIT.done;
      } finally {
        activity.stop();
        lock.release();
      }
    }),
  );
};

function report(result: RebuildResult, durationMs: number, attachmentsMs: number): Report {
  return [
    `The catalog is new: ${counted(result.commits, 'commit')}, ${counted(result.messages, 'message')}, ${count(result.indexed)} made searchable, in ${span(durationMs)}.`,
    result.unparsed > 0 &&
      `${counted(result.unparsed, 'message')} could not be parsed as mail; headers are searchable.`,
    result.attachments > 0 &&
      `Reading the text of ${counted(result.attachments, 'attachment')} took ${span(attachmentsMs)} of that.`,
    damagesOf(result).map(({ text }) => `DAMAGED ${text}`),
  ];
}

function damagesOf({ damage, damagedMessages }: RebuildResult): KnownFinding[] {
  return [
    ...damage.map(({ file, offset, end, reason }) => ({
      what: 'log',
      id: null,
      text:
        reason === 'ends-early'
          ? `${file} (${reason}): the log ends before the last commit that the old catalog has`
          : `${file}, bytes ${offset} to ${end} (${reason})`,
    })),
    ...damagedMessages.map((id) => ({ what: 'message', id, text: `message ${id}` })),
  ];
}

/** Records damage that the rebuild found in the log. The new catalog itself is intact. */
function rememberRebuild(
  context: CommandContext,
  dataDir: string,
  run: { readonly at: number; readonly endedAt: number },
  result: RebuildResult,
): void {
  const findings = damagesOf(result).map((finding) =>
    finding.id === null ? finding : { ...finding, text: `message ${shortId(finding.id)}` },
  );
  const found = findings.length;
  writeStateOrWarn(
    context,
    dataDir,
    'damage',
    (state) =>
      recordDamage(state, { ...run, found, findings, covers: concernsCatalogOnly }, 'rebuild'),
    true,
  );
}
