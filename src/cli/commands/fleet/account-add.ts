import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { addFleetAccount } from '../../../fleet/add-account.ts';
import { readFleetKeys } from '../../../fleet/key-file.ts';
import type { CommandContext } from '../../context.ts';
import type { AddLine } from './account-lines.ts';
import { accountFrom, DEFAULT_TENANT, refuseTwoInputs } from './account-settings.ts';
import { withFleet } from './open-fleet.ts';

/**
 * `mailkeep fleet account add`: adds an account with its secrets.
 *
 * @throws config-invalid and the other errors of the settings; token-missing and those of a token; fleet-account-exists
 */
export async function addAccountCommand(
  context: CommandContext,
  name: string,
  line: AddLine,
): Promise<ExitCode> {
  const { output } = context;
  const tenant = line.tenant ?? DEFAULT_TENANT;
  refuseTwoInputs(line, 'fleet account add');
  return withFleet(context, async ({ config, registry, fleet }) => {
    // Before anything is read from standard input: it would be gone.
    const keys = readFleetKeys(config.fleet.keyFile);
    const { settings, secrets } = await accountFrom(context, name, line);
    const account = { tenant, name, settings, secrets };
    const archive = await addFleetAccount(registry, fleet.id, keys, account);
    const facts = {
      account: name,
      tenant,
      archive,
      secrets: [...secrets.keys()],
      key: keys.current,
    };
    await output.object(
      facts,
      () =>
        `Added the account ${name} of the tenant ${tenant} as archive ${archive}. Its secrets (${facts.secrets.join(', ')}) are encrypted by the key ${keys.current}.`,
    );
    return EXIT.done;
  });
}
