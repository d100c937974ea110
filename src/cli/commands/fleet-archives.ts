import { tmpdir } from 'node:os';
import path from 'node:path';
import { S3Store } from '../../copies/s3-store.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { count, counted } from '../../core/text.ts';
import { adoptArchive } from '../../fleet/adopt.ts';
import { checkShard, shippedShards } from '../../fleet/check-shard.ts';
import { fleetError } from '../../fleet/errors.ts';
import { readFleetKeys } from '../../fleet/keys.ts';
import { type SegmentProver, threadedProver } from '../../verify/check-segment.ts';
import type { SampleSize } from '../../verify/verify.ts';
import type { CommandContext } from '../context.ts';
import { formatFindings } from '../copy-target.ts';
import { type OpenFleet, withFleet } from '../open-fleet.ts';
import { joinReport } from '../output.ts';
import {
  type AccountLine,
  DEFAULT_TENANT,
  knownNames,
  nameKey,
  readAccounts,
  storeTarget,
} from './fleet-actions.ts';

export interface ImportLine extends AccountLine {
  readonly accounts: string;
}

export interface VerifyLine {
  readonly sample?: SampleSize;
}

interface Bucket {
  readonly store: S3Store;
  readonly prover: SegmentProver;
}

async function withBucket<T>(
  context: CommandContext,
  act: (open: OpenFleet & Bucket) => Promise<T>,
): Promise<T> {
  return withFleet(context, async (open) => {
    const store = new S3Store(await storeTarget(context, open.config));
    const prover = threadedProver();
    try {
      return await act({ ...open, store, prover });
    } finally {
      await prover.close();
      await store.close();
    }
  });
}

/** @throws fleet-account-exists, archive-in-use; the errors of `adoptArchive` */
export async function importArchive(
  context: CommandContext,
  folder: string,
  { accounts: file, tenant = DEFAULT_TENANT }: ImportLine,
): Promise<ExitCode> {
  const { environment, signal, output } = context;
  const dir = path.resolve(environment.cwd, folder);
  return withBucket(context, async ({ config, registry, fleet, store, prover }) => {
    const keys = readFleetKeys(config.fleet.keyFile);
    const accounts = await readAccounts(context, fleet, keys, file, tenant);
    const [first] = accounts;
    if (first === undefined) {
      const problem = 'the file of --accounts has none.';
      throw usageError('usage-invalid', { command: 'fleet import', problem });
    }
    const known = await knownNames(registry);
    const taken = accounts.find((one) => known.has(nameKey(one)));
    const exists = ({ name, tenant: of }: typeof first) =>
      fleetError('fleet-account-exists', { account: name, tenant: of });
    if (taken !== undefined) throw exists(taken);
    const adopted = await adoptArchive(
      {
        ...{ registry, fleet, keys, store, prover, context, signal },
        ...{ node: config.fleet.node, codec: config.settings.archive.codec },
      },
      dir,
      accounts,
    );
    // Somebody else has added one of them meanwhile.
    if (adopted === undefined) throw exists(first);
    const facts = { ...adopted, accounts: accounts.length };
    await output.object(
      facts,
      () =>
        `Shard ${facts.shard} has ${counted(facts.accounts, 'account')}, and the archive up to commit ${count(facts.commit)}. The fleet knows nothing of the folder: forgets do not reach it.`,
    );
    return EXIT.done;
  });
}

/** @throws errors of the store and the registry */
export async function verifyShards(
  context: CommandContext,
  shard: number | undefined,
  { sample }: VerifyLine,
): Promise<ExitCode> {
  const { signal, output, notices } = context;
  return withBucket(context, async ({ config, registry, fleet, store, prover }) => {
    const rows = await shippedShards(registry, shard);
    if (rows.length === 0) notices.say('Nothing was shipped yet.');
    const options = {
      ...{ registry, fleet, store, prover, signal, temporary: tmpdir(), random: Math.random },
      keys: readFleetKeys(config.fleet.keyFile),
      sample: sample !== undefined && 'messages' in sample ? { parts: sample.messages } : sample,
    };
    let isSound = true;
    for (const row of rows) {
      const { checked, of, commit, ...result } = await checkShard(options, row);
      const findings = formatFindings(result.findings);
      isSound &&= findings.length === 0;
      await output.line({ shard: row.shard, commit, checked, of, findings }, () =>
        joinReport([
          `Shard ${row.shard} is at commit ${count(commit)}: ${count(checked)} of ${counted(of, 'segment')} opened and read. ${findings.length === 0 ? 'Nothing is damaged.' : ''}`.trimEnd(),
          findings.map(({ message }) => message),
          findings.length > 0 &&
            `Delete the damaged objects, below shards/${row.shard}/, and restart the worker that holds the shard: it uploads again what is missing.`,
        ]).join('\n'),
      );
    }
    return isSound ? EXIT.done : EXIT.damage;
  });
}
