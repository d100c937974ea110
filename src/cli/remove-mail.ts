import { loadSettings } from '../catalog/archive-settings.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { RemovalEffect } from '../catalog/messages.ts';
import { openWriter } from '../catalog/open-writer.ts';
import { configuresArchive, isConfigGiven, locateConfig } from '../core/config-locate.ts';
import { capitalise } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { bytes, counted } from '../core/text.ts';
import { isImported } from '../mail/identity.ts';
import { finishPurge, journalForget, planRemoval, refuseHeld } from '../verify/purge.ts';
import { requireArchiveDir, withReader, withState } from './archive.ts';
import { confirm } from './ask.ts';
import type { CommandContext } from './context.ts';

export interface MailToRemove {
  /** The command's name in the prompt. */
  readonly act: 'forget' | 'undo';
  /** For example "import 12 into Backup". */
  readonly name: string;
  readonly removable: RemovalEffect;
}

type Choose = (
  catalog: Catalog,
  state: Pick<StateFile, 'runs'> | undefined,
) => MailToRemove & { readonly run?: number };

/**
 * Removes mail by place. Messages with other places remain there.
 * @param choose called again once the archive is locked
 * @throws errors from `choose`; forget-on-hold, retention-not-indexed, retention-bad-hold, operation-needs-yes,
 * archive-in-use: nothing was changed
 * @throws log-damaged, disk-full and similar errors, purge-interrupted: run the command again to resume
 */
export async function removeMail(
  context: CommandContext,
  { yes, dryRun }: { readonly yes: boolean; readonly dryRun: boolean },
  choose: Choose,
): Promise<void> {
  const { output, notices, signal } = context;
  const dataDir = requireArchiveDir(context);
  const print = (mail: ReturnType<Choose>, boxes: Boxes, done?: Done) =>
    output.object(resultOf(mail, boxes, done), () => textOf(mail, boxes, done).join('\n'));
  if (dryRun) {
    return withReader(context, ({ catalog }) =>
      withState(dataDir, (state) => {
        const mail = choose(catalog, state);
        refuseHeld(context, catalog, state, holdsIn(context, dataDir), mail.removable);
        return print(mail, boxesOf(catalog, mail));
      }),
    );
  }
  let writer = await openWriter(context, dataDir);
  try {
    const before = await finishPurge(context, writer);
    if (before?.closed === true) writer = await openWriter(context, dataDir);
    const { catalog, state } = writer;
    const mail = choose(catalog, state);
    const boxes = boxesOf(catalog, mail);
    const { places, parts } = mail.removable;
    if (parts.length === 0 || (mail.run !== undefined && places === 0)) {
      return await print(mail, boxes, { segments: before?.segments ?? 0 });
    }
    refuseHeld(context, catalog, state, holdsIn(context, dataDir), mail.removable);
    if (!yes) await confirm(context, mail.act, textOf(mail, boxes));
    notices.say('Reading the log for data of these messages.');
    const plan = await planRemoval(writer, mail.removable, signal);
    await journalForget(writer, plan);
    const done = await finishPurge(context, writer);
    await print(mail, boxes, {
      segments: done?.segments ?? 0,
      shared: plan.purgeSearch.shared.length,
    });
  } finally {
    await writer.close();
  }
}

/** Returns the archive's configured holds. A configuration found by search may belong to another archive. */
function holdsIn(context: CommandContext, dataDir: string) {
  const { globals, environment } = context;
  const file = locateConfig(globals.config, environment);
  if (file === undefined) return [];
  const isOurs =
    isConfigGiven(globals.config, environment) || configuresArchive(file, dataDir, environment);
  return isOurs ? loadSettings(context).retention.hold : [];
}

type Boxes = ReturnType<Catalog['folders']['mailboxes']>;

interface Done {
  readonly segments: number;
  /** Number of attachments kept because other messages contain them. */
  readonly shared?: number;
}

function boxesOf(catalog: Catalog, { removable: { parts } }: MailToRemove): Boxes {
  return catalog.folders
    .mailboxes()
    .filter((box) => parts.some((one) => one.host === box.host && one.mailbox === box.mailbox));
}

function bytesOf({ going }: RemovalEffect): number {
  return going.reduce((sum, { size }) => sum + size, 0);
}

function resultOf(mail: ReturnType<Choose>, boxes: Boxes, done: Done | undefined) {
  const { parts, places, going, staying, incomplete } = mail.removable;
  return {
    dryRun: done === undefined,
    run: mail.run ?? null,
    mailboxes: boxes.map(({ host, mailbox, address }) => {
      const part = parts.find((one) => one.host === host && one.mailbox === mailbox);
      return { address, resourceId: mailbox, host, whole: part?.commits === undefined };
    }),
    places,
    messages: going.length,
    bytes: bytesOf(mail.removable),
    staying,
    incomplete,
    sharedAttachments: done?.shared ?? null,
    segments: done?.segments ?? null,
  };
}

function textOf(mail: ReturnType<Choose>, boxes: Boxes, done?: Done): string[] {
  const { act, name, removable } = mail;
  const { parts, places, going, staying, incomplete } = removable;
  if (mail.run !== undefined && places === 0) {
    return [`${capitalise(name)} is undone already: the archive has none of its messages.`];
  }
  const verb =
    act === 'undo'
      ? { would: 'Would undo', did: 'Undone:' }
      : { would: 'Would remove', did: 'Removed:' };
  const lines = [
    `${done === undefined ? verb.would : verb.did} ${terminalLine(name)}, with ${counted(going.length, 'message')} (${bytes(bytesOf(removable))}).`,
  ];
  if (staying > 0) {
    lines.push(
      `${counted(staying, 'message stays', 'messages stay')} in the archive: other mailboxes, folders or imports have ${staying === 1 ? 'it' : 'them'}.`,
    );
  }
  if (incomplete > 0) lines.push(`${counted(incomplete, 'incomplete message')} also removed.`);
  for (const { address, host, mailbox } of boxes) {
    const part = parts.find((one) => one.host === host && one.mailbox === mailbox);
    if (act === 'undo' && part?.commits === undefined) {
      lines.push(`The mailbox ${terminalLine(address)} has nothing else and is removed too.`);
    }
    if (isImported({ host })) continue;
    lines.push(
      `A later sync stores ${terminalLine(address)} again if the account still has it. To prevent that, add it to mailboxes.exclude of the account.`,
    );
  }
  if (done?.shared !== undefined && done.shared > 0) {
    lines.push(
      `${counted(done.shared, 'attachment stays', 'attachments stay')}, because other messages have ${done.shared === 1 ? 'it' : 'them'}.`,
    );
  }
  if (done === undefined) return lines;
  return [...lines, 'Other copies still have these messages until the next "mailkeep copy".'];
}
