import { RETRY_POLICY } from '../../../copies/s3-client.ts';
import { ensureBucket, s3Store } from '../../../copies/s3-store.ts';
import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { terminalLine } from '../../../core/terminal-safe.ts';
import { counted } from '../../../core/text.ts';
import { type Initialised, initialise } from '../../../fleet/init.ts';
import type { CommandContext } from '../../context.ts';
import { joinReport } from '../../output.ts';
import { fleetConfigOf, storeTarget, withRegistry } from './open-fleet.ts';

export interface InitLine {
  readonly allowVersioning?: boolean;
  readonly createBucket?: boolean;
}

/** `mailkeep fleet init`: makes a fleet, or brings it up to date. @throws what `initialise` throws */
export async function initFleetCommand(
  context: CommandContext,
  { allowVersioning = false, createBucket = false }: InitLine,
): Promise<ExitCode> {
  const { signal, output } = context;
  const config = fleetConfigOf(context);
  const { keyFile } = config.fleet;
  const target = await storeTarget(context, config);
  return withRegistry(context, config, async (registry) => {
    const bucketMade = createBucket && (await ensureBucket(target, signal));
    // A person waits.
    const store = s3Store(target, { retries: { ...RETRY_POLICY, attempts: 3 } });
    try {
      const options = { registry, store, keyFile, allowVersions: allowVersioning, signal };
      const done = await initialise(options);
      const places = { registry: registry.label, store: store.label, keyFile, bucketMade };
      await output.object(factsOf(done, places), () => textOf(done, places));
      return EXIT.done;
    } finally {
      await store.close();
    }
  });
}

interface Places {
  readonly registry: string;
  readonly store: string;
  readonly keyFile: string;
  readonly bucketMade: boolean;
}

function factsOf({ fleet, isNew, steps, store, key }: Initialised, places: Places) {
  return {
    fleet: fleet.id,
    created: isNew,
    registry: places.registry,
    steps,
    store: places.store,
    bucketCreated: places.bucketMade,
    versioned: store.keepsVersions,
    locked: store.locks,
    keyFile: places.keyFile,
    key: key.name,
    keyCreated: key.isNew,
  };
}

function textOf({ fleet, isNew, steps, store, key }: Initialised, places: Places): string {
  const { bucketMade } = places;
  const keyFile = terminalLine(places.keyFile);
  return joinReport([
    steps.length === 0
      ? `${places.registry}: the tables are up to date.`
      : `${places.registry}: the tables were brought up to date (${counted(steps.length, 'step')}).`,
    `${places.store}: ${bucketMade ? 'was created; ' : ''}an object was written in parts, read back and ${store.locks ? 'locked' : 'deleted'}; an upload was called off.`,
    store.keepsVersions &&
      'The bucket keeps versions: mailkeep deletes all versions of what it deletes.',
    store.locks &&
      'The bucket locks what is written to it: a forget ends only after its locks have ended.',
    `Fleet ${fleet.id} ${isNew ? 'was created' : 'exists; it was left as it is'}.`,
    key.isNew
      ? `${keyFile} was created with the key ${key.name}. Copy it to every node, and keep a copy elsewhere: without it, no token in the registry can be read.`
      : `${keyFile}: the key ${key.name} encrypts.`,
  ]).join('\n');
}
