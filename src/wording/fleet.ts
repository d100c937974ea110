import type { FleetFacts } from '../errors/fleet.ts';
import { counted } from './amounts.ts';
import { didYouMean, type Sentences, say, some } from './sentence.ts';

const UNFIT: Readonly<Record<FleetFacts['fleet-store-unfit']['problem'], string>> = {
  'read-back': 'it returned other bytes than were stored',
  'call-off': 'an upload that was called off could still be completed',
  delete: 'an object was still there after it was deleted',
};

export const FLEET_SENTENCES: Sentences<FleetFacts> = {
  'fleet-missing': ({ registry }) =>
    say(`${registry} has no fleet.`, 'Make one with "mailkeep fleet init".'),
  'fleet-store-other': ({ registry, found, wanted }) =>
    say(
      `${registry} belongs to a fleet whose objects are in ${found}, and the configuration says ${wanted}. Nothing was changed.`,
      'Correct fleet.registry or fleet.store in the configuration.',
    ),
  'fleet-store-versioned': ({ store }) =>
    say(
      `${store} keeps versions of objects. What is forgotten would stay in it if anything but mailkeep deleted an object.`,
      'Use a bucket without versioning, or accept it with --allow-versioning.',
    ),
  'fleet-store-unfit': ({ store, problem }) =>
    say(
      `${store} cannot be used for a fleet: ${UNFIT[problem]}.`,
      'Use another S3 server. mailkeep was tested with RadosGW.',
    ),
  'fleet-account-exists': ({ account, tenant }) =>
    say(
      `There is an account ${account} of the tenant ${tenant} already. Nothing was changed.`,
      'Choose another name, or another tenant with --tenant.',
    ),
  'fleet-account-unknown': ({ account, tenant }) =>
    say(
      tenant === null
        ? `There is no account ${account}.`
        : `The tenant ${tenant} has no account ${account}.`,
      '"mailkeep fleet account list" lists all accounts.',
    ),
  'fleet-account-ambiguous': ({ account, tenants }) =>
    say(
      `Several tenants have an account ${account}: ${some(tenants, 9)}.`,
      'Name the tenant with --tenant.',
    ),
  'fleet-account-importing': ({ account, tenant }) =>
    say(
      `The account ${account} of the tenant ${tenant} is being imported. Nothing was changed.`,
      'Run "mailkeep fleet import" again to continue the import, or "mailkeep fleet account remove" to call it off.',
    ),
  'fleet-import-purge': ({ dir }) =>
    say(
      `The archive ${dir} has a forget or prune that was interrupted. Nothing was imported.`,
      'Run "mailkeep sync" or the interrupted command with this archive, which finishes it. Then import it.',
    ),
  'fleet-log-exists': ({ account, tenant }) =>
    say(
      `This archive is in the fleet already, as the account ${account} of the tenant ${tenant}. Nothing was changed.`,
      'An archive can be in a fleet once. Import it under that name, or call that import off with "mailkeep fleet account remove".',
    ),
  'fleet-import-lost': ({ account, tenant }) =>
    say(
      `Another process continued the import of ${account} (tenant ${tenant}), or called it off.`,
      'Once no other process is importing it, run the command again.',
    ),
  'fleet-import-none': ({ account, tenant }) =>
    say(
      `No import of the account ${account} of the tenant ${tenant} is under way.`,
      '"mailkeep fleet account list" lists all accounts with their states.',
    ),
  'fleet-account-removed': ({ account, tenant }) =>
    say(
      `The account ${account} of the tenant ${tenant} was removed from the fleet: nobody mirrors it.`,
      '"mailkeep fleet account resume" brings it back.',
    ),
  'fleet-node-unknown': ({ node, suggestion }) =>
    say(
      `The fleet has no node ${node}.`,
      didYouMean(suggestion, '"mailkeep fleet status" lists those that are at work.'),
    ),
  'fleet-node-alive': ({ node }) =>
    say(
      `A worker of ${node} is running, so its disk is not destroyed. Nothing was changed.`,
      'Stop it first. If the machine is gone, its session ends within a minute.',
    ),
  'fleet-disk-not-destroyed': ({ node, copies, purges }) =>
    say(
      `${node} may have copies of ${counted(copies, 'account')} on its disk${purges === 0 ? '' : `, and ${counted(purges, 'forget')} cannot end before they are wiped`}. Nothing was changed.`,
      'If the disk still exists, start the node again: it wipes what is to be forgotten by itself. Only if the disk is destroyed, so that nobody can ever read it, add --disk-destroyed. What is on it is then counted as forgotten.',
    ),
};
