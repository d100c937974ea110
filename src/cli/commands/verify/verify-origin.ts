import { openWriter } from '../../../engine/archive/writer.ts';
import { makePass } from '../../../engine/pass/make-pass.ts';
import { type OpenAccounts, withAccounts } from '../../../engine/pass/open-pass.ts';
import { chosenAccounts } from '../../../engine/pass/selection.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { systemClock } from '../../../limiter/clock.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import {
  type Difference,
  examineAccount,
  type OriginFinding,
} from '../../../sync/apply/examine-account.ts';
import type { SyncResult } from '../../../sync/result.ts';
import { count, counted, span } from '../../../wording/amounts.ts';
import type { CommandContext } from '../../context.ts';
import { printError } from '../../notices.ts';
import { present } from '../../output.ts';
import { followPass } from '../../progress/sync-progress.ts';
import { troublesOf } from '../../troubles.ts';

/** More than this many differences are counted, and not named. */
const MOST_NAMED = 10_000;
const NO_NARROWING = { account: undefined, mailboxes: [], folders: [] };

/**
 * `mailkeep verify --origin`: compares the archive with the service and settles what was assumed. Nothing else is
 * concluded from a difference: deciding about it is what a sync is for.
 *
 * @throws archive-in-use
 */
export async function verifyOrigin(context: CommandContext): Promise<ExitCode> {
  const settings = settingsOf(context);
  const chosen = chosenAccounts(settings, undefined);
  const writer = await openWriter(context, settings.dataDir, settings.archive.codec);
  const followed = await followPass(context, settings, false);
  const act = async ({ accounts, requests }: OpenAccounts): Promise<ExitCode> => {
    const tally = { folders: 0, messages: 0, differences: 0 };
    const findings: OriginFinding[] = [];
    const result = await makePass(writer, settings, {
      accounts,
      policy: { verifyPerHour: Number.MAX_SAFE_INTEGER, full: true, acceptEndings: false },
      pass: (ctx, wanted) =>
        examineAccount(ctx, wanted, {
          found: (finding) => {
            tally.differences += 1;
            if (findings.length < MOST_NAMED) findings.push(finding);
          },
          compared: (_mailbox, _folder, messages) => {
            tally.folders += 1;
            tally.messages += messages;
          },
        }),
      indexing: { some: async () => 0, all: async () => {} },
      tidy: async () => [],
      requests,
      now: context.now,
      after: (ms, act) => systemClock.after(ms, act),
      progress: followed.progress,
      signal: context.signal,
    });
    followed.stop();
    return report(context, result, tally, findings);
  };
  try {
    return await withAccounts(context, settings, chosen, NO_NARROWING, writer, followed, act);
  } finally {
    followed.stop();
    await writer.close();
  }
}

async function report(
  context: CommandContext,
  result: SyncResult,
  tally: { readonly folders: number; readonly messages: number; readonly differences: number },
  findings: readonly OriginFinding[],
): Promise<ExitCode> {
  const sum = (field: 'verified' | 'corrected'): number =>
    result.mailboxes.reduce((total, mailbox) => total + mailbox[field], 0);
  const { requests, durationMs, failures } = result;
  // Relinked places whose sources were fetched: as assumed, or another message.
  const settled = { verified: sum('verified'), corrected: sum('corrected') };
  const shown = { ...tally, ...settled, findings, requests, durationMs };
  await context.output.object({ ...shown, failures }, () => textOf(shown));
  const troubles = troublesOf(result);
  for (const trouble of troubles) printError(context.notices.stream, context.globals.json, trouble);
  const differs = tally.differences > 0 ? [EXIT.failures] : [];
  return combinedExit([...troubles.map(({ exit }) => exit), ...differs]);
}

const SENTENCES: Readonly<Record<Difference, string>> = {
  'not-archived': 'is at the service and not in the archive',
  'not-listed': 'is current in the archive and not listed by the service',
  'other-message': 'is listed as another message than the archive has',
  'other-flags': 'has other flags at the service',
  'folder-not-archived': 'is at the service and not in the archive',
  'folder-not-listed': 'is in the archive and not listed by the service',
};

function textOf(report: {
  readonly folders: number;
  readonly messages: number;
  readonly verified: number;
  readonly corrected: number;
  readonly differences: number;
  readonly findings: readonly OriginFinding[];
  readonly requests: number;
  readonly durationMs: number;
}): string {
  const { folders, messages, differences, findings, verified, corrected } = report;
  const lines = findings.map(({ mailbox, folder, uid, difference }) => {
    const place = [mailbox, folder, ...(uid === null ? [] : [String(uid)])].join(' / ');
    return `${terminalLine(place)} ${SENTENCES[difference]}`;
  });
  const more = differences - findings.length;
  const assumed =
    verified + corrected === 0
      ? ''
      : ` ${counted(verified, 'relinked message')} had the bytes that were assumed, ${count(corrected)} had others and were corrected.`;
  return present([
    lines,
    more > 0 && `… and ${counted(more, 'more difference')}`,
    `${counted(messages, 'place')} in ${counted(folders, 'folder')} compared with the service: ${differences === 0 ? 'no difference' : counted(differences, 'difference')}.${assumed} ${counted(report.requests, 'request')}, ${span(report.durationMs)}.`,
  ]).join('\n');
}
