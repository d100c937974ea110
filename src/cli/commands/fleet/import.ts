import { randomBytes } from 'node:crypto';
import { refuseNetworkFileSystem } from '../../../archive/file-system.ts';
import { s3Store } from '../../../copies/s3-store.ts';
import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { count, counted } from '../../../core/text.ts';
import { type ImportedArchive, importArchive } from '../../../fleet/import-archive.ts';
import { removeScratch } from '../../../fleet/import-scratch.ts';
import { readFleetKeys } from '../../../fleet/key-file.ts';
import { fleetError } from '../../../registry/errors.ts';
import { callOffImport } from '../../../registry/imports.ts';
import { listAccounts } from '../../../registry/overview.ts';
import { readArchive } from '../../../registry/reading.ts';
import { requireArchiveDir } from '../../archive.ts';
import type { CommandContext } from '../../context.ts';
import { joinReport } from '../../output.ts';
import { openActivity } from '../../progress.ts';
import type { ImportLine } from './account-lines.ts';
import { accountFrom, DEFAULT_TENANT, refuseTwoInputs } from './account-settings.ts';
import { calledOffText } from './import-words.ts';
import { storeTarget, withFleet } from './open-fleet.ts';

/**
 * `mailkeep fleet import`: copies an archive of this machine into the fleet.
 *
 * @throws what `withFleet`, `storeTarget`, `refuseNetworkFileSystem`, `accountFrom` and `importArchive` throw; fleet-import-none
 */
export async function importCommand(context: CommandContext, line: ImportLine): Promise<ExitCode> {
  const { account: name, tenant = DEFAULT_TENANT } = line;
  if (line.abort === true) return callOff(context, name, tenant);
  const { output, signal } = context;
  refuseTwoInputs(line, 'fleet import');
  const dir = requireArchiveDir(context);
  // Its lock is what keeps others from writing to it.
  refuseNetworkFileSystem(dir, context.environment.env);
  return withFleet(context, async ({ config, registry, fleet }) => {
    const keys = readFleetKeys(config.fleet.keyFile);
    const objects = s3Store(await storeTarget(context, config));
    const activity = openActivity(context, 'reading the archive');
    try {
      const imported = await importArchive({
        ...{ registry, fleet: fleet.id, objects, dir, cache: config.fleet.cache },
        ...{ tenant, name, keys, random: randomBytes, signal },
        account: () =>
          accountFrom(context, name, { ...line, settings: line.settings ?? config.settings.file }),
        onProgress: ({ segments, of }) =>
          activity.show(() => `stored ${count(segments)} of ${counted(of, 'segment')}`),
      });
      activity.stop();
      const { was, hasCatalog, hasMemory, ...counts } = imported;
      const facts = { account: name, tenant, ...counts, was, catalog: hasCatalog };
      await output.object({ ...facts, memory: hasMemory }, () =>
        importedText(dir, name, tenant, imported),
      );
      return EXIT.done;
    } finally {
      activity.stop();
      await objects.close();
    }
  });
}

async function callOff(context: CommandContext, account: string, tenant: string) {
  return withFleet(context, async ({ config, registry }) => {
    const [found] = await listAccounts(registry, { name: account, tenant }, 1);
    const isUnderWay = found?.state === 'importing';
    const stored = isUnderWay ? await readArchive(registry, found.archive) : undefined;
    const called = isUnderWay ? await callOffImport(registry, found.archive) : undefined;
    if (called?.outcome !== 'committed') {
      throw fleetError('fleet-import-none', { account, tenant });
    }
    if (stored !== undefined) removeScratch(config.fleet.cache, stored.logId);
    const { objects } = called;
    await context.output.object({ account, tenant, was: 'called off', objects }, () =>
      calledOffText(account, tenant, objects),
    );
    return EXIT.done;
  });
}

function importedText(
  dir: string,
  account: string,
  tenant: string,
  imported: ImportedArchive,
): string {
  const { was, archive, commits, segments, uploaded, kept, tail, hasCatalog } = imported;
  const name = `the account ${account} of the tenant ${tenant} (archive ${archive})`;
  if (was === 'already') return `${dir} was imported before as ${name}. Nothing was changed.`;
  const earlier = kept === 0 ? '' : `, and ${count(kept)} of an earlier attempt kept`;
  return joinReport([
    `Imported ${dir} as ${name}: ${counted(commits, 'commit')} in ${counted(segments, 'segment')}. Any node may take it.`,
    `${counted(uploaded, 'object was', 'objects were')} uploaded and read back${earlier}; ${counted(tail, 'commit is', 'commits are')} in PostgreSQL.`,
    !hasCatalog && 'The catalog has to be made again by the first node that takes it.',
    `${dir} is as it was, and no part of the fleet: what is forgotten in the fleet stays there. Delete it once the fleet is backed up.`,
  ]).join('\n');
}
