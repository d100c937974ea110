import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { holdsArchive } from '../../archive/file-system.ts';
import { loadSettings } from '../../catalog/archive-settings.ts';
import type { AccountMailbox } from '../../catalog/folders.ts';
import type { Reader } from '../../catalog/open-reader.ts';
import { loadConfig } from '../../core/config.ts';
import { ConfigDraft, editImapAccount, type ImapChanges } from '../../core/config-edit.ts';
import { configFileText } from '../../core/config-file.ts';
import type { ImapAccount, Settings } from '../../core/config-schema.ts';
import { usageError } from '../../core/error-tables.ts';
import { hasCode, MailkeepError } from '../../core/errors.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { counted } from '../../core/text.ts';
import { imapError } from '../../imap/errors.ts';
import { chooseAccounts } from '../../sync/selection.ts';
import { withReader } from '../archive.ts';
import { terminalPrompter } from '../ask.ts';
import { type CommandContext, type Flags, invalidUsage, type Values } from '../context.ts';
import { joinReport } from '../output.ts';

interface MoveLine
  extends Values<'host' | 'tls' | 'user' | 'passwordFile' | 'passwordEnv'>,
    Values<'port', number>,
    Flags<'yes'> {}

type Comparison = Awaited<ReturnType<typeof import('../../imap/same-mailbox.ts').compareMailbox>>;

/**
 * Changes the server or user of an IMAP account in the configuration. Compares the mailbox there with the archive first,
 * to decide whether the account continues its mailbox or starts another one. Changes nothing in the archive.
 *
 * @throws imap.no-imap, config-not-editable, usage-not-interactive; errors of the configuration and the server
 */
export async function moveAccount(
  context: CommandContext,
  name: string,
  line: MoveLine,
): Promise<void> {
  const settings = loadSettings(context);
  const { file } = settings;
  const account = imapAccount(settings, name);
  const before = configFileText(file);
  const changes = changesOf(account, line);
  const draft = new ConfigDraft(file, before);
  try {
    const moved = changedAccount(file, editImapAccount(before, name, changes), name);
    if (isSameServer(account, moved)) {
      throw invalidUsage('account move', 'the account has this server and user already.');
    }
    const { kept, comparison, archived } = await compare(context, settings, account, moved);
    const id = comparison?.isSame === true ? kept?.mailbox : newId(moved);
    const all = kept === undefined || id === undefined ? changes : { ...changes, id };
    const text = editImapAccount(before, name, all);
    changedAccount(file, text, name);
    draft.write(text);
    const report = reportText(account, moved, { kept, comparison, archived }, all, file);
    await confirmMove(context, line, file, report);
    draft.replace();
    await context.output.object(
      {
        ...{ account: name, config: file, written: true },
        from: account.imap.server,
        to: moved.imap.server,
        mailbox: kept === undefined ? null : { kept: kept.mailbox, next: id ?? null },
        continues: comparison?.isSame ?? null,
        compared: comparison === null ? null : partsOf(comparison),
      },
      () => [
        // Otherwise it was shown with the question.
        ...(line.yes === true ? report : []),
        `${terminalLine(file)} was changed. The next sync reads as ${placeOf(moved)}; a running daemon needs SIGHUP or a restart.`,
      ],
    );
  } finally {
    draft.remove();
  }
}

/** Returns the account as it would be with a new text of the configuration. @throws usage-invalid */
function changedAccount(file: string, text: string, name: string): ImapAccount {
  try {
    return imapAccount(loadConfig(file, text).settings, name);
  } catch (error) {
    if (!(error instanceof MailkeepError) || !hasCode(error, 'config-invalid')) throw error;
    const { paths, found, expected } = error.facts as Readonly<Record<string, readonly string[]>>;
    const problems = (paths ?? []).map(
      (field, i) =>
        `the account's ${field.split('.').at(-1)} would be ${found?.[i]}, expected ${expected?.[i]}`,
    );
    throw invalidUsage('account move', `${problems.join('; ')}.`);
  }
}

function imapAccount(settings: Settings, name: string): ImapAccount {
  const [account] = chooseAccounts(settings, name);
  if (account?.kind !== 'imap') throw imapError('imap.no-imap', { account: name });
  return account;
}

function isSameServer({ imap: a }: ImapAccount, { imap: b }: ImapAccount): boolean {
  const same = (['host', 'port', 'tls', 'user'] as const).every(
    (key) => a.server[key] === b.server[key],
  );
  return same;
}

/** Returns the fields to set. The old server's port does not stay at another host. */
function changesOf({ imap }: ImapAccount, line: MoveLine): ImapChanges {
  const { host, tls = imap.server.tls, user, passwordFile, passwordEnv } = line;
  const usual = tls === 'implicit' ? 993 : 143;
  const hasUsual = imap.server.port === (imap.server.tls === 'implicit' ? 993 : 143);
  const stays = tls === imap.server.tls && (hasUsual || host === undefined);
  const port = line.port ?? (stays ? undefined : usual);
  return {
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(line.tls === undefined ? {} : { tls }),
    ...(user === undefined ? {} : { user }),
    ...(passwordFile === undefined ? {} : { password: { file: passwordFile } }),
    ...(passwordEnv === undefined ? {} : { password: { env: passwordEnv } }),
  };
}

/** Returns the key of a mailbox that starts at this server. */
function newId({ imap: { server } }: ImapAccount): string {
  const isUsual = server.port === 993 || server.port === 143;
  return `${server.host}${isUsual ? '' : `:${server.port}`}/${server.user}`;
}

interface Compared {
  /** The account's mailbox in the archive. */
  readonly kept: AccountMailbox | undefined;
  readonly comparison: Comparison | null;
  /** Keys of all mailboxes of IMAP accounts in the archive. */
  readonly archived: ReadonlySet<string>;
}

/** Compares the archive's mailbox with the server. `comparison` is null if the archive has no mailbox of the account. */
async function compare(
  context: CommandContext,
  settings: Settings,
  account: ImapAccount,
  moved: ImapAccount,
): Promise<Compared> {
  const { ImapConnections } = await import('../../imap/connections.ts');
  const { imapCredential } = await import('../../imap/credential.ts');
  const { imapOrigin } = await import('../../imap/imap-origin.ts');
  const { compareMailbox } = await import('../../imap/same-mailbox.ts');
  const { environment, signal } = context;
  const { dataDir } = settings;
  const connections = new ImapConnections({
    server: moved.imap.server,
    credential: imapCredential(moved, { env: environment.env, dataDir }),
    most: 1,
  });
  const spoolDir = mkdtempSync(path.join(tmpdir(), 'mailkeep-move-'));
  const origin = imapOrigin({ connections, mailbox: moved.imap, spoolDir });
  try {
    const isNew = { kept: undefined, comparison: null, archived: new Set<string>() };
    if (!holdsArchive(dataDir)) {
      // Tries to sign in.
      await origin.folders(moved.imap.id, signal);
      return isNew;
    }
    return await withReader(context, async (reader) => {
      const mailboxes = reader.catalog.folders.accountMailboxes();
      const kept =
        mailboxes.find(({ mailbox }) => mailbox === account.imap.id) ??
        mailboxes.find((one) => one.account === account.name);
      if (kept === undefined) {
        await origin.folders(moved.imap.id, signal);
        return isNew;
      }
      const comparison = await compareMailbox(
        origin,
        kept,
        archivedFolders(reader, kept),
        (folders, most) => sampleMessages(reader, kept, folders, most),
        signal,
      );
      return { kept, comparison, archived: new Set(mailboxes.map(({ mailbox }) => mailbox)) };
    });
  } finally {
    await connections.close();
    rmSync(spoolDir, { recursive: true, force: true });
  }
}

function archivedFolders({ catalog }: Reader, { host, mailbox }: AccountMailbox) {
  return catalog.folders.all({ mailbox: { host, mailbox } }).flatMap(({ id, folder }) => {
    if (catalog.folders.counts(id).open === 0) return [];
    const epoch = catalog.folders.epoch({ host, mailbox, folder });
    return [{ folder, uidValidity: epoch?.uidValidity ?? null }];
  });
}

/** Picks messages of the current UID epochs at random, each with the same probability. */
function sampleMessages(
  { catalog }: Reader,
  { host, mailbox }: AccountMailbox,
  folders: ReadonlySet<string>,
  most: number,
) {
  const generations = new Map(
    [...folders].map((folder) => [
      folder,
      catalog.folders.epoch({ host, mailbox, folder })?.generation,
    ]),
  );
  const picked: { folder: string; uid: number; sha256: string }[] = [];
  let met = 0;
  for (const { line, folder, generation } of catalog.listPlaces({ mailbox })) {
    if (line.id === null || folder.host !== host || folder.mailbox !== mailbox) continue;
    if (generations.get(folder.path) !== generation) continue;
    met += 1;
    const at = picked.length < most ? picked.length : randomInt(met);
    if (at < most) picked[at] = { folder: folder.path, uid: line.uid, sha256: line.id };
  }
  // The order of the list is by date, and the first ones are compared.
  for (let i = picked.length - 1; i > 0; i -= 1) {
    const j = randomInt(i + 1);
    const [a, b] = [picked[i], picked[j]];
    if (a !== undefined && b !== undefined) [picked[i], picked[j]] = [b, a];
  }
  return picked;
}

function partsOf({ folders, messages }: Comparison) {
  return { folders, messages };
}

function placeOf({ imap: { server } }: ImapAccount): string {
  return terminalLine(`${server.user} at ${server.host}:${server.port}`);
}

function reportText(
  account: ImapAccount,
  moved: ImapAccount,
  found: Compared,
  changes: ImapChanges,
  file: string,
): string[] {
  const shown = Object.entries(changes).map(
    ([field, value]) => `  ${field}: ${terminalLine(JSON.stringify(value))}`,
  );
  return joinReport([
    `The account ${account.name} moves from ${placeOf(account)} to ${placeOf(moved)}.`,
    ...comparedText(moved, found),
    `Changes of accounts.${account.name}.imap in ${terminalLine(file)}:`,
    ...shown,
  ]);
}

function comparedText(moved: ImapAccount, { kept, comparison, archived }: Compared): string[] {
  if (kept === undefined || comparison === null) {
    return ['The archive has no mailbox of this account yet, so there is nothing to continue.'];
  }
  const { isSame, folders, messages } = comparison;
  const mailbox = terminalLine(kept.mailbox);
  const next = terminalLine(newId(moved));
  if (isSame) {
    return [
      `It is the same mailbox: ${counted(folders.same, 'folder')} with the same UIDVALIDITY, and ${counted(messages.same, 'sampled message')} with the same bytes.`,
      `It continues as ${mailbox}; nothing is downloaded again.`,
    ];
  }
  const known = folders.same + folders.different + folders.missing;
  const why =
    known === 0
      ? 'the archive has not recorded any UIDVALIDITY that could be compared'
      : folders.different > 0
        ? `${folders.different} of ${counted(known, 'folder')} have another UIDVALIDITY`
        : messages.different > 0
          ? `${counted(messages.different, 'sampled message')} differ`
          : folders.same < folders.missing || folders.same === 0
            ? `${folders.missing} of ${counted(known, 'folder')} are missing there`
            : 'most of the sampled messages are missing there';
  return [
    `It does not count as the same mailbox: ${why}.`,
    archived.has(newId(moved))
      ? `The next sync continues ${next}, which the archive has already. It keeps ${mailbox} as it is, next to it.`
      : `The next sync starts another mailbox, ${next}. The archive keeps ${mailbox} as it is, next to it.`,
  ];
}

/** @throws operation-declined, usage-not-interactive */
async function confirmMove(
  context: CommandContext,
  { yes }: MoveLine,
  file: string,
  report: readonly string[],
): Promise<void> {
  if (yes === true) return;
  const prompter = context.globals.json ? undefined : terminalPrompter(context);
  if (prompter === undefined) {
    throw usageError('usage-not-interactive', { command: 'account move', missing: ['--yes'] });
  }
  context.notices.stream.write(`${report.join('\n')}\n`);
  await prompter.agree(`Write ${terminalLine(file)}?`);
}
