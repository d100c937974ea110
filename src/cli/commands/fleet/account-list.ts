import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { bytes, count, span } from '../../../core/text.ts';
import { type ListedAccount, listAccounts } from '../../../registry/overview.ts';
import type { CommandContext } from '../../context.ts';
import { tableText } from '../../output.ts';
import type { AccountLine } from './account-lines.ts';
import { withFleet } from './open-fleet.ts';

/** Accounts that are in memory at a time. */
const PAGE = 500;
const HEADINGS = ['account', 'tenant', 'state', 'node', 'commits', 'last commit', 'in PostgreSQL'];

/** `mailkeep fleet account list`: accounts with who holds them and how fresh they are. */
export async function listAccountsCommand(
  context: CommandContext,
  { tenant }: AccountLine,
): Promise<ExitCode> {
  const { output, notices, now } = context;
  return withFleet(context, async ({ registry }) => {
    let last: ListedAccount | undefined;
    for (;;) {
      const page = await listAccounts(registry, { tenant }, PAGE, last);
      if (output.json) {
        for (const account of page) await output.line(factsOf(account), () => '');
      } else if (page.length > 0) {
        const rows = page.map((account) => rowOf(account, now()));
        await output.text(tableText(HEADINGS, rows, 0, output));
      }
      if (page.length === 0 && last === undefined) notices.say('There are no accounts.');
      last = page.at(-1);
      if (page.length < PAGE) return EXIT.done;
    }
  });
}

function factsOf(account: ListedAccount) {
  const { archive, name, tenant, state, node, isHolderAlive, commits, tailBytes, forgets } =
    account;
  return {
    ...{ account: name, tenant, archive, state, node, holderAlive: isHolderAlive, commits },
    lastCommit: lastCommitOf(account),
    tailBytes,
    unfinishedForgets: forgets,
  };
}

function lastCommitOf({ commits, headTime }: ListedAccount): string | null {
  return commits === 0 ? null : new Date(headTime).toISOString();
}

function rowOf(account: ListedAccount, now: number): string[] {
  const { name, tenant, state, commits, headTime, tailBytes } = account;
  return [
    name,
    tenant,
    state,
    nodeText(account),
    count(commits),
    commits === 0 ? '-' : `${span(Math.max(0, now - headTime))} ago`,
    bytes(tailBytes),
  ];
}

function nodeText({ node, isHolderAlive }: ListedAccount): string {
  if (node === null) return '-';
  return isHolderAlive ? node : `${node} (dead)`;
}
