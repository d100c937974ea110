import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { hasMailboxName } from '../catalog/folders.ts';
import { usageError } from '../core/error-tables.ts';
import { nearestAddress } from '../core/names.ts';
import { converse } from '../fleet/reading/converse.ts';
import { HolderHttp } from '../fleet/reading/holder-http.ts';
import { accountOf } from '../registry/account-named.ts';
import { readArchive } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import { type AskArchive, mailboxesOf } from '../web/elsewhere/front.ts';
import { refuseFolder, withHolder } from './ask-fleet.ts';
import { withFleet } from './commands/fleet/open-fleet.ts';
import type { CommandContext } from './context.ts';
import type { AccountOption } from './option-values.ts';

const LINE = { command: 'web', options: [], words: [] } as const;

/**
 * Returns the folder in which a node remembers who may read an account of a fleet here: browsers that are signed in, and
 * tokens. Made if it is missing. Its name is the id of the log: a registry that was made again, or restored, may give the
 * number of the archive to somebody else.
 *
 * @param cache the node's folder for archives
 */
async function servedFolder(cache: string, registry: Registry, archive: number): Promise<string> {
  const stored = await readArchive(registry, archive);
  if (stored === undefined) throw new Error('an archive is never removed');
  const folder = path.join(cache, 'served', stored.logId.toString('hex'));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

/** The same for an account by its name. @throws usage-invalid; what `withFleet` and `accountOf` throw */
export function servedFolderOf(
  context: CommandContext,
  which: AccountOption,
  command: string,
): Promise<string> {
  refuseFolder(context, command);
  return withFleet(context, async ({ config: { fleet: place }, registry }) => {
    const { archive } = await accountOf(registry, which.account, which.tenant);
    return servedFolder(place.cache, registry, archive);
  });
}

/**
 * Returns the keys of mailboxes of an account; null where none is named.
 *
 * @throws usage-unknown-name; what asking the holder throws
 */
export async function mailboxKeysOf(
  context: CommandContext,
  which: AccountOption,
  named: readonly string[],
): Promise<readonly string[] | null> {
  if (named.length === 0) return null;
  return withServedArchive(context, which, (ask) => chosenMailboxes(ask, named));
}

/** Runs `act` with what asks the holder of an account, and the folder in which this node remembers who may ask. */
export async function withServedArchive<T>(
  context: CommandContext,
  which: AccountOption,
  act: (ask: AskArchive, dataDir: string) => Promise<T>,
): Promise<T> {
  return withHolder(context, which, LINE, async (options, question, { cache }) => {
    const errors = async (bytes: Buffer) => void context.notices.stream.write(bytes);
    const holder = new HolderHttp((signal) => converse(options, question, errors, signal));
    const close = (): void => void holder.close();
    // Also while a holder is looked for.
    context.signal.addEventListener('abort', close);
    try {
      const dataDir = await servedFolder(cache, options.registry, question.archive);
      return await act((request) => holder.fetch(request), dataDir);
    } finally {
      context.signal.removeEventListener('abort', close);
      await holder.close();
    }
  });
}

/** The archive is asked in any case: one that cannot be read is reported now, and not to the first visitor. */
export async function chosenMailboxes(
  ask: AskArchive,
  named: readonly string[],
): Promise<readonly string[] | null> {
  const known = await mailboxesOf(ask);
  if (named.length === 0) return null;
  return named.flatMap((found) => {
    const meant = known.filter((one) => hasMailboxName(one, found));
    if (meant.length > 0) return meant.map(({ key }) => key);
    const candidates = known.map(({ address }) => address);
    const suggestion = nearestAddress(found, candidates);
    throw usageError('usage-unknown-name', { kind: 'mailbox', found, suggestion, candidates });
  });
}
