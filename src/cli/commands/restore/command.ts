import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { refuseUnknownChoice } from '../../../engine/archive/chosen-names.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { accountHosts, savedSearches, withSaved } from '../../../engine/saved-searches.ts';
import type { ExitCode } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import { addressText, imapAddress } from '../../../restore/imap-access.ts';
import { connectImap } from '../../../restore/imap-connection.ts';
import { openJournal, readJournal } from '../../../restore/open-journal.ts';
import type { Destination } from '../../../restore/restore-options.ts';
import { runRestore } from '../../../restore/run-restore.ts';
import type { RestoreSelection } from '../../../restore/selection.ts';
import { parseQuery } from '../../../search/parse.ts';
import { holdYoungGeneration } from '../../../threads/young-generation.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { collected, moment, wholeNumber } from '../../option-values.ts';
import { openActivity } from '../../progress/activity.ts';
import { refuseUnknown, warnBeforeBeginning } from '../../unknown-names.ts';
import { type CredentialLine, credentialFor } from './credential.ts';
import { exitOfRestore, progressText, restoreJson, restoreText } from './print-restore.ts';

/** Servers allow a user ten connections or more; other programs of the user need some. */
const DEFAULT_JOBS = 4;
const MOST_JOBS = 16;

interface RestoreLine extends CredentialLine {
  readonly to: string;
  readonly query?: string;
  readonly mailbox?: readonly string[];
  readonly folder?: readonly string[];
  readonly asOf?: string;
  readonly deleted?: boolean;
  readonly into?: string;
  readonly inPlace?: boolean;
  readonly new?: boolean;
  readonly jobs: number;
  readonly journal?: string;
  readonly dryRun?: boolean;
}

const HELP = `
Puts messages back into a mailbox, over IMAP, with their folders, flags and received dates. Nothing at the server is
changed or removed: the command creates folders, subscribes to them and appends messages. It compares what is
there first, so that no message is there twice, and looks again once all is there.

Without --into and --in-place, everything goes below a new folder, Restored/DATE. Several mailboxes get a folder each
in it. An interrupted restore is continued by the same command, under its own folder; --new begins another. The
journal is in the archive's state.sqlite, or in --journal FILE where the archive is read-only.

EXAMPLES
  mailkeep restore --to imaps://anna%40example.org@mail.example.org --dry-run
  mailkeep restore --to imaps://anna@mail.example.org --folder Projects --as-of 2026-03-01
  mailkeep restore --to imaps://anna@mail.example.org --deleted --query 'from:landlord'
  mailkeep restore --to imaps://anna@mail.example.org --mailbox anna@example.org --in-place`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .requiredOption('--to <url>', 'the server and the user there: imaps://USER@HOST[:PORT]')
    .option('--password-file <file>', 'read the password from the first line of this file')
    .addOption(
      new Option(
        '--password-env <name>',
        'read it from this variable of the environment',
      ).conflicts('passwordFile'),
    )
    .addOption(
      new Option(
        '--oauth-token-env <name>',
        'sign in with the OAuth access token in this variable',
      ).conflicts(['passwordFile', 'passwordEnv']),
    )
    .option('--query <Q>', 'only messages that this query finds')
    .option('--mailbox <address>', 'only this mailbox; repeatable', collected)
    .option(
      '--folder <path>',
      'only this folder: a path, a pattern, or a purpose such as sent; repeatable',
      collected,
    )
    .option('--as-of <T>', 'what existed at that time')
    .option(
      '--deleted',
      'messages that are nowhere in their mailbox now, each from its last folder',
    )
    .option('--into <prefix>', 'the folder below which everything goes; / parts its levels')
    .addOption(new Option('--in-place', 'into the folders that they were in').conflicts('into'))
    .option('--new', 'begin another restore, also where one is unfinished')
    .option(
      '--jobs <n>',
      `connections at most (default: ${DEFAULT_JOBS})`,
      wholeNumber(1, MOST_JOBS),
      DEFAULT_JOBS,
    )
    .option('--journal <file>', 'keep the journal in this file')
    .option('--dry-run', 'print what would be done, and do nothing')
    .addHelpText('after', HELP)
    .action((options: RestoreLine) => chosen((context) => restore(context, options)));
}

async function restore(context: CommandContext, line: RestoreLine): Promise<ExitCode> {
  const { output, signal, surroundings, now } = context;
  const address = imapAddress(line.to);
  const destination = destinationOf(line);
  return withReader(context, async (reader) => {
    const selection = selectionOf(context, reader, line);
    const credential = await credentialFor(context, address, line);
    const dryRun = line.dryRun ?? false;
    const file = line.journal === undefined ? null : path.resolve(surroundings.cwd, line.journal);
    const place = { dataDir: reader.dataDir, file };
    const journal = dryRun ? readJournal(place) : openJournal(place);
    // What is read and sent passes through memory quickly: without this, most of it is kept for more of the same.
    holdYoungGeneration();
    const activity = openActivity(context, `connecting to ${address.host}`);
    try {
      const result = await runRestore({
        target: addressText(address),
        host: address.host,
        connect: () => connectImap(address, credential),
        selection,
        destination,
        fresh: line.new ?? false,
        dryRun,
        jobs: line.jobs,
        catalog: reader.catalog,
        sources: reader.sources(),
        journal,
        signal,
        now,
        sleep: (ms) => delay(ms, undefined, { signal }).catch(() => {}),
        onProgress: (progress) => activity.show(() => progressText(progress)),
      });
      activity.stop();
      await output.object(restoreJson(result), () => restoreText(result, output));
      return exitOfRestore(result);
    } finally {
      activity.stop();
      journal?.close();
    }
  });
}

function destinationOf({ into, inPlace }: RestoreLine): Destination {
  if (inPlace === true) return { kind: 'in-place' };
  if (into === undefined) return { kind: 'dated' };
  const levels = into.split('/').filter((level) => level !== '');
  if (levels.length === 0) {
    const expected = 'the path of a folder, such as Old/Mail';
    throw usageError('usage-option', { option: '--into', found: into, expected });
  }
  return { kind: 'into', levels };
}

function selectionOf(context: CommandContext, reader: Reader, line: RestoreLine): RestoreSelection {
  const { mailbox: mailboxes = [], folder: folders = [], deleted = false } = line;
  const { dataDir, catalog } = reader;
  const at = context.now();
  refuseUnknownChoice(reader, line);
  const text =
    line.query === undefined ? null : withSaved(line.query, () => savedSearches(dataDir));
  const query = text === null ? null : parseQuery(text, { now: at });
  const asOf = line.asOf === undefined ? (query?.asOf ?? null) : moment('--as-of', line.asOf, at);
  warnBeforeBeginning(catalog, asOf, context.notices);
  const accounts = query === null ? new Map() : accountHosts(query.node, context);
  if (query !== null) {
    const when = asOf === null ? {} : { asOf };
    const asked = { node: query.node, accounts, ...when, limit: 1, sort: 'newest' } as const;
    refuseUnknown(catalog.explainSearch(asked).unknown, context.notices);
  }
  return {
    query: text === null || query === null ? null : { text, node: query.node, accounts },
    mailboxes,
    folders,
    asOf,
    asOfText: line.asOf ?? null,
    deleted,
  };
}
