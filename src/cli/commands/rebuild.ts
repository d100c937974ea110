import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { formatPath } from '../../archive/layout.ts';
import { acquireLock } from '../../archive/lock.ts';
import { openAttachmentExtractor } from '../../attachments/extractor.ts';
import { reachedBy } from '../../catalog/reached-by.ts';
import { locateDataDir } from '../../config/data-dir.ts';
import { usageError } from '../../errors/usage.ts';
import { type RebuildResult, rebuildCatalog } from '../../indexer/rebuild.ts';
import { openExtractorPool } from '../../mime/extractor-pool.ts';
import { count, counted, span } from '../amounts.ts';
import type { Body } from '../command-file.ts';
import { EXIT } from '../exit-codes.ts';
import { openActivity } from '../progress/activity.ts';

const HELP = `
Rebuilds the catalog from the log next to the old one, and replaces that when it is complete. The log
is only read. Needs no configuration and no network. Damage is named and ends with code 3;
the catalog then has everything that can be read.

EXAMPLE
  mailkeep rebuild --data /var/lib/mailkeep`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.addHelpText('after', HELP).action(() =>
    chosen(async (context) => {
      const { globals, surroundings, output, signal, now } = context;
      const dataDir = locateDataDir(globals, surroundings);
      if (!existsSync(formatPath(dataDir))) throw usageError('usage-no-archive', { dataDir });
      const lock = acquireLock(dataDir);
      const extractor = openExtractorPool();
      const attachments = openAttachmentExtractor();
      const startedAt = now();
      const activity = openActivity(context, 'reading the log');
      try {
        const result = await rebuildCatalog({
          dir: dataDir,
          extractor,
          attachments,
          signal,
          seen: reachedBy(dataDir)?.number,
          onFold: ({ messages }) =>
            activity.show(() => `read ${counted(messages, 'message')} of the log`),
          onIndex: ({ indexed, remaining }) =>
            activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
        });
        activity.stop();
        const durationMs = now() - startedAt;
        await output.object({ ...result, durationMs }, () => report(result, durationMs));
        const damaged = result.damage.length + result.damagedMessages.length > 0;
        return damaged ? EXIT.damage : EXIT.done;
      } finally {
        activity.stop();
        await Promise.all([extractor.close(), attachments.close()]);
        lock.release();
      }
    }),
  );
}

function report(result: RebuildResult, durationMs: number): string {
  return [
    `The catalog is new: ${counted(result.commits, 'commit')}, ${counted(result.messages, 'message')}, ${count(result.indexed)} made searchable, in ${span(durationMs)}.`,
    ...(result.unparsed === 0
      ? []
      : [
          `${counted(result.unparsed, 'message')} could not be parsed as mail; headers are searchable.`,
        ]),
    ...(result.attachments === 0
      ? []
      : [`The text of ${counted(result.attachments, 'attachment')} was read.`]),
    ...result.damage.map(
      ({ file, offset, end, reason }) => `DAMAGED ${file}, bytes ${offset} to ${end} (${reason})`,
    ),
    ...result.damagedMessages.map((id) => `DAMAGED message ${id}`),
  ].join('\n');
}
