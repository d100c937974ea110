import { s3Store } from '../../../copies/s3-store.ts';
import { describeError, EXIT, type ExitCode } from '../../../core/errors.ts';
import { counted } from '../../../core/text.ts';
import { type CheckedArchive, checkArchive } from '../../../fleet/check.ts';
import { fleetError } from '../../../registry/errors.ts';
import { type ListedAccount, listAccounts } from '../../../registry/overview.ts';
import { replicationOf } from '../../../registry/reading.ts';
import type { CommandContext } from '../../context.ts';
import { joinReport } from '../../output.ts';
import { storeTarget, withFleet } from './open-fleet.ts';

export interface CheckLine {
  readonly tenant?: string;
  readonly read?: boolean;
}

/** Accounts that are read from the registry at a time. */
const PAGE = 100;
/** What is damaged, in JSON, at most. */
const MOST_DAMAGE = 1_000;

/**
 * `mailkeep fleet check`: ends with 3 if something is damaged or missing, and with 1 if PostgreSQL does not replicate
 * synchronously.
 *
 * @throws what `withFleet`, `storeTarget` and `checkArchive` throw
 */
export async function checkCommand(
  context: CommandContext,
  name: string | undefined,
  { tenant, read = false }: CheckLine,
): Promise<ExitCode> {
  const { output, notices, signal } = context;
  return withFleet(context, async ({ config, registry }) => {
    const objects = s3Store(await storeTarget(context, config));
    const damage: { account: string; tenant: string; code: string; message: string }[] = [];
    const importing: ListedAccount[] = [];
    const total = { accounts: 0, damaged: 0, commits: 0, objects: 0, bytesRead: 0 };
    try {
      let after: ListedAccount | undefined;
      for (;;) {
        const page = await listAccounts(registry, { tenant, name }, PAGE, after);
        for (const account of page) {
          signal.throwIfAborted();
          // Its head moves last, when everything was verified.
          if (account.state === 'importing') {
            importing.push(account);
            continue;
          }
          const options = { registry, objects, isReading: read, signal };
          const checked = await checkArchive(options, account.archive);
          if (checked === undefined) continue;
          add(total, checked);
          for (const problem of checked.problems) {
            const { code, message } = describeError(problem);
            notices.say(`${account.name} (tenant ${account.tenant}): ${message}`);
            if (damage.length < MOST_DAMAGE) {
              damage.push({ account: account.name, tenant: account.tenant, code, message });
            }
          }
        }
        after = page.at(-1);
        if (page.length < PAGE) break;
      }
    } finally {
      await objects.close();
    }
    const [unfinished] = importing;
    if (total.accounts === 0 && name !== undefined && unfinished !== undefined) {
      throw fleetError('fleet-account-importing', { account: name, tenant: unfinished.tenant });
    }
    if (total.accounts === 0 && name !== undefined) {
      throw fleetError('fleet-account-unknown', { account: name, tenant: tenant ?? null });
    }
    const { isSynchronous } = await replicationOf(registry);
    await output.object({ ...total, damage, synchronous: isSynchronous }, () =>
      joinReport([
        total.damaged === 0
          ? `${counted(total.accounts, 'account')}: every commit is there once (${total.commits} in all), and ${counted(total.objects, 'object')} ${read ? 'were read and are' : 'are there and as long'} as written.`
          : `${counted(total.damaged, 'account')} of ${total.accounts} ${total.damaged === 1 ? 'is' : 'are'} damaged: see above.`,
        isSynchronous
          ? 'PostgreSQL acknowledges only what a replica has.'
          : 'PostgreSQL acknowledges what no replica has: a failover takes commits back. Set synchronous_standby_names.',
      ]).join('\n'),
    );
    if (total.damaged > 0) return EXIT.damage;
    return isSynchronous ? EXIT.done : EXIT.failures;
  });
}

function add(
  total: { accounts: number; damaged: number; commits: number; objects: number; bytesRead: number },
  { commits, objects, bytesRead, problems }: CheckedArchive,
): void {
  total.accounts += 1;
  total.commits += commits;
  total.objects += objects;
  total.bytesRead += bytesRead;
  if (problems.length > 0) total.damaged += 1;
}
