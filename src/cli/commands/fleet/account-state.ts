import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { counted } from '../../../core/text.ts';
import { accountOf } from '../../../registry/account-named.ts';
import { type AccountState, changeState } from '../../../registry/accounts.ts';
import { fleetError } from '../../../registry/errors.ts';
import { callOffImport } from '../../../registry/imports.ts';
import type { ListedAccount } from '../../../registry/overview.ts';
import type { Registry } from '../../../registry/registry.ts';
import type { CommandContext } from '../../context.ts';
import { joinReport } from '../../output.ts';
import type { AccountLine } from './account-lines.ts';
import { calledOffText } from './import-words.ts';
import { withFleet } from './open-fleet.ts';

const CHANGES = {
  pause: { from: ['active'], to: 'paused' },
  resume: { from: ['paused', 'leaving'], to: 'active' },
  remove: { from: ['active', 'paused'], to: 'leaving' },
} as const;

const IS: Readonly<Record<AccountState, string>> = {
  active: 'active: any node may take it',
  paused: 'paused: no node takes it',
  leaving: 'removed from the fleet: no node takes it. Its mail stays in registry and bucket',
  importing: 'being imported: no node takes it',
};

/**
 * `mailkeep fleet account pause`, `resume` and `remove`.
 *
 * @throws fleet-account-unknown, fleet-account-ambiguous, fleet-account-removed, fleet-account-importing
 */
export async function changeAccountCommand(
  context: CommandContext,
  act: keyof typeof CHANGES,
  name: string,
  { tenant }: AccountLine,
): Promise<ExitCode> {
  return withFleet(context, async ({ registry }) => {
    const account = await accountOf(registry, name, tenant);
    const { archive, state: before } = account;
    if (before === 'importing') return calledOff(context, registry, account, act);
    const { from, to } = CHANGES[act];
    if (act === 'pause' && before === 'leaving') {
      throw fleetError('fleet-account-removed', { account: name, tenant: account.tenant });
    }
    const changed = await changeState(registry, archive, from, to);
    // It was in that state before: nothing is to be done, and nothing more is known than before.
    const isChanged = changed.outcome === 'committed';
    const { node, forgets } = isChanged ? changed : account;
    const facts = { account: name, tenant: account.tenant, archive, state: to, changed: isChanged };
    await context.output.object({ ...facts, node, unfinishedForgets: forgets }, () =>
      joinReport([
        `${name} (tenant ${account.tenant}) is ${isChanged ? '' : 'already '}${IS[to]}.`,
        to !== 'active' && node !== null && `Node ${node} holds it and lets go of it soon.`,
        to !== 'active' &&
          forgets > 0 &&
          `${counted(forgets, 'forget')} of it cannot end before it is resumed.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

/** Removing an account that is being imported calls the import off. */
async function calledOff(
  { output }: CommandContext,
  registry: Registry,
  { name, tenant, archive }: ListedAccount,
  act: keyof typeof CHANGES,
): Promise<ExitCode> {
  const called = act === 'remove' ? await callOffImport(registry, archive) : undefined;
  if (called?.outcome !== 'committed') {
    throw fleetError('fleet-account-importing', { account: name, tenant });
  }
  const facts = { account: name, tenant, archive, state: null, changed: true };
  await output.object({ ...facts, node: null, unfinishedForgets: 0 }, () =>
    calledOffText(name, tenant, called.objects),
  );
  return EXIT.done;
}
