import path from 'node:path';
import { portableConfig } from '../../../config/portable-config.ts';
import type { Copied } from '../../../copy/copy-log.ts';
import { type CatalogThere, copyArchive } from '../../../engine/copy-archive.ts';
import { settingsText, writeSettings } from '../../../engine/offsite/carried-settings.ts';
import { copyToTarget } from '../../../engine/offsite/copy-to-target.ts';
import { noteCopied, noteMended } from '../../../engine/offsite/note-copy.ts';
import { copiesError } from '../../../errors/copies.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import type { CopiedOut } from '../../../offsite/copy-out.ts';
import { openExistingState } from '../../../state/state-file.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { archiveOf } from '../../archive-access.ts';
import type { CommandContext } from '../../context.ts';
import { foundIn, isEncrypted, notingDamage, required, withStore } from '../../copy-target.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';
import type { CopyLine } from './lines.ts';

/** `mailkeep copy --to`: in a folder a readable archive, elsewhere an encrypted copy. @throws usage-invalid */
export function copyTo(context: CommandContext, options: CopyLine): Promise<ExitCode> {
  const to = required(options.to, '--to');
  if (isEncrypted(context, archiveOf(context), to)) return copyToStore(context, to, options);
  if (options.encrypt === true) {
    const problem = `${to} has no encrypted copy. Begin one with "mailkeep copy init --to ${to}".`;
    throw usageError('usage-invalid', { command: 'copy', problem });
  }
  return copyToFolder(context, to, options);
}

/** States of a copy that stay however old they are, if not said. */
const KEPT = 1;

/** All of them are in JSON. */
const FINDINGS_SHOWN = 5;

/** @throws what the engine's `copyToTarget` throws */
async function copyToStore(
  context: CommandContext,
  target: string,
  { refresh = false, keep = KEPT, limitRate, lockDays }: CopyLine,
): Promise<ExitCode> {
  const { signal, output, now } = context;
  const dataDir = archiveOf(context);
  const startedAt = now();
  return withStore(context, target, { bytesPerSecond: limitRate }, async (store) => {
    const to = store.label;
    const activity = openActivity(context, 'comparing the copy with the archive');
    const copied = await notingDamage(context, dataDir, to, () =>
      copyToTarget({
        ...{ dataDir, store, refresh, keep, lockDays, signal, now },
        config: portableConfig(context.globals, context.surroundings, dataDir),
        onProgress: ({ objects, of, bytes: sent }) =>
          activity.show(() => `uploaded ${objects} of ${counted(of, 'object')}, ${bytes(sent)}`),
      }).finally(activity.stop),
    );
    const { number: commit, removed, locks, mended: _, replaced, ...rest } = copied;
    const findings = foundIn(copied.findings);
    noteCopied(context, dataDir, to, { at: now(), commit, encrypted: true });
    noteMended(context, dataDir, to, findings, replaced);
    const about = { to, number: commit, ...rest, findings, replaced, removed, locks };
    await output.object({ ...about, durationMs: now() - startedAt }, () =>
      storeReport(to, copied, findings),
    );
    if (findings.length > 0) return EXIT.damage;
    return copied.invalid.length > 0 || removed.locked.length > 0 ? EXIT.failures : EXIT.done;
  });
}

function storeReport(
  to: string,
  copied: CopiedOut,
  findings: readonly { readonly message: string; readonly repaired: boolean }[],
): string {
  const { number, uploaded, objects, stored, replaced, invalid, removed, locks } = copied;
  const left = findings.filter(({ repaired }) => !repaired);
  const until = removed.lockedUntil;
  return present([
    `${to} is at commit ${count(number)}: ${counted(uploaded, 'object')} uploaded, ${bytes(copied.bytes)}; total: ${counted(objects, 'object')}, ${bytes(stored)}.`,
    replaced.length > 0 &&
      `${counted(replaced.length, 'object')} that "mailkeep verify --copy" had found damaged ${replaced.length === 1 ? 'was' : 'were'} uploaded again.`,
    findings.slice(0, FINDINGS_SHOWN).map(({ message }) => message),
    findings.length > left.length &&
      `${counted(findings.length - left.length, 'damaged or missing object')} ${findings.length - left.length === 1 ? 'was' : 'were'} stored again. Check who or what changes that place.`,
    left.length > 0 && `${counted(left.length, 'object')} could not be repaired.`,
    removed.manifests + removed.objects > 0 &&
      `${counted(removed.manifests, 'earlier state')} and ${counted(removed.objects, 'object')} that nothing needs any more were removed.`,
    removed.locked.length > 0 &&
      `${counted(removed.locked.length, 'object')} could not be removed, because the bucket keeps them locked${until === null ? '' : ` until ${until}`}.`,
    locks !== null && `Nobody can delete any of it before ${new Date(locks.until).toISOString()}.`,
    invalid.length > 0 &&
      `${counted(invalid.length, 'manifest')} there ${invalid.length === 1 ? 'is' : 'are'} damaged or forged, and ignored: ${invalid.slice(0, 3).join(', ')}.`,
  ]).join('\n');
}

/** @throws offsite-no-locks; what the engine's `copyArchive` throws */
async function copyToFolder(
  context: CommandContext,
  target: string,
  options: CopyLine,
): Promise<ExitCode> {
  const { surroundings, signal, output, now } = context;
  const from = archiveOf(context);
  const to = path.resolve(surroundings.cwd, target);
  if (options.lockDays !== undefined) throw copiesError('offsite-no-locks', { to });
  const startedAt = now();
  const activity = openActivity(context, 'comparing the copy with the archive');
  const { catalog, ...copied } = await copyArchive({
    from,
    to,
    rebuild: options.rebuild ?? false,
    signal,
    onCopy: ({ segments, of }) =>
      activity.show(() => `copied and verified ${segments} of ${counted(of, 'segment')}`),
    onFold: ({ messages }) =>
      activity.show(() => `read ${counted(messages, 'message')} of the copied log`),
    onIndex: ({ indexed, remaining }) =>
      activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  }).finally(activity.stop);
  noteCopied(context, from, to, { at: now(), commit: copied.number, encrypted: false });
  await carrySettings(context, from, to);
  const result = { to, ...copied, catalog, durationMs: now() - startedAt };
  await output.object(result, () => copyReport(to, copied, catalog));
  return EXIT.done;
}

/** Writes what a readable copy carries besides the archive. */
async function carrySettings(
  { globals, surroundings }: CommandContext,
  from: string,
  to: string,
): Promise<void> {
  const state = openExistingState(from);
  try {
    const text = settingsText(state, portableConfig(globals, surroundings, from));
    if (text !== undefined) await writeSettings(to, text);
  } finally {
    state?.close();
  }
}

function copyReport(
  to: string,
  { number, segments, written, bytes: size, purged }: Copied,
  catalog: CatalogThere,
): string {
  return present([
    `${to} is at commit ${number}: ${counted(written, 'segment')} of ${segments} copied and verified, ${bytes(size)}.`,
    purged > 0 && `${counted(purged, 'record')} purged there as well.`,
    catalog === 'updated' && 'Its catalog was brought up to date.',
    (catalog === 'none' || catalog === 'removed') &&
      `It has no catalog; "mailkeep rebuild --data ${to}" creates one; so does "mailkeep copy" with --rebuild.`,
  ]).join('\n');
}
