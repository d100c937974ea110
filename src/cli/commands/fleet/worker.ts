import { randomBytes } from 'node:crypto';
import { uptime } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import packageJson from '../../../../package.json' with { type: 'json' };
import { s3Store } from '../../../copies/s3-store.ts';
import { systemClock } from '../../../core/concurrency.ts';
import type { FleetConfig } from '../../../core/config.ts';
import { readRegistryAddress } from '../../../core/config.ts';
import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { targetLabel } from '../../../core/s3-target.ts';
import { builtWorker } from '../../../core/worker-thread.ts';
import { openDaemonLog } from '../../../daemon/daemon-log.ts';
import { FleetMetrics } from '../../../daemon/fleet-metrics.ts';
import type { DaemonClock } from '../../../daemon/ports.ts';
import { readFleetKeys } from '../../../fleet/key-file.ts';
import { listenForNodes } from '../../../fleet/link/listen.ts';
import { openFleetNeighbours } from '../../../fleet/neighbours.ts';
import { ownFleet } from '../../../fleet/own-fleet.ts';
import { ReadingDesk } from '../../../fleet/reading/desk.ts';
import { runWorker } from '../../../fleet/run-worker.ts';
import { openAttachmentExtractor } from '../../../mail/attachment-extractor.ts';
import { openExtractorPool } from '../../../mail/mime-threads.ts';
import type { RegistryEvent } from '../../../registry/events.ts';
import { openRegistry, type Registry, type RegistryLimits } from '../../../registry/registry.ts';
import { PROGRAM } from '../../../registry/schema.ts';
import { type RegistryTarget, registryTarget } from '../../../registry/target.ts';
import type { CommandContext } from '../../context.ts';
import { fleetConfigOf, storeTarget } from './open-fleet.ts';

/** A renewal has to fail within a third of a lease, and waits for no other request. */
const OF_SESSIONS: Partial<RegistryLimits> = {
  ...{ connections: 1, connectMs: 3_000, statementMs: 3_000, answerMs: 5_000 },
  idleInTransactionMs: 3_000,
};
const OF_ARCHIVES: Partial<RegistryLimits> = { connections: 8 };
/** How long it is tried to settle what is unknown, in milliseconds: as long as a failover of PostgreSQL may take. */
const PATIENCE_MS = 120_000;

/**
 * `mailkeep fleet worker`: keeps archives of the fleet fresh until the signal.
 *
 * @throws cannot-listen, fleet-cannot-listen; what `fleetConfigOf`, `ownFleet`, `readFleetKeys` and `storeTarget` throw
 */
export async function fleetWorkerCommand(context: CommandContext): Promise<ExitCode> {
  const config = fleetConfigOf(context);
  const { fleet: place, settings } = config;
  const keys = () => readFleetKeys(place.keyFile);
  // Now, so that a file that cannot be read is found before anything begins.
  keys();
  const target = await storeTarget(context, config);
  const clock: DaemonClock = {
    now: context.now,
    monotonic: () => performance.now(),
    after: (ms, act) => systemClock.after(ms, act),
  };
  const metrics = new FleetMetrics(packageJson.version);
  return withRegistries(context, config, metrics, async ({ registry, sessions, direct }) => {
    const fleet = await ownFleet(registry, targetLabel(place.store));
    const log = await openDaemonLog(settings.log.level, context.output.interactive);
    const objects = s3Store(target);
    const desk = new ReadingDesk({
      reader: builtWorker('fleet-reader'),
      onFailed: (error) => log.fail('error', 'a request of another node failed', error),
    });
    const extractors = { messages: openExtractorPool(), attachments: openAttachmentExtractor() };
    const closers: (() => Promise<unknown>)[] = [
      () => objects.close(),
      () => Promise.all([extractors.messages.close(), extractors.attachments.close()]),
    ];
    const { listen } = place;
    const { webhook } = settings;
    try {
      if (listen !== undefined) {
        const secrets = { fleet: fleet.id, keys };
        const listener = await listenForNodes({ listen, secrets, answer: desk.answer });
        closers.push(() => listener.close());
      }
      const neighbours = await openFleetNeighbours({
        ...{ fleet: fleet.id, keys, settings, registry, direct, clock, log, metrics },
        ...{ env: context.environment.env, random: randomBytes },
      });
      closers.push(() => neighbours.close());
      await runWorker(
        {
          neighbours,
          onEvent: neighbours.onEvent,
          onRequest: neighbours.onRequest,
          onReady: neighbours.onReady,
          webhookUrl: place.createWebhooks ? (webhook?.publicUrl ?? null) : null,
          ...{
            registry,
            sessions,
            objects,
            fleet: fleet.id,
            keys,
            settings,
            extractors,
            clock,
            log,
          },
          onReadable: (host) => desk.serve(host),
          ...{ env: context.environment.env, cache: place.cache, random: randomBytes },
          worker: {
            ...{ node: place.node, address: place.address ?? '', egress: place.egress },
            ...{ program: PROGRAM, capacity: place.capacity },
          },
          uptime: () => uptime() * 1_000,
          patience: { forMs: PATIENCE_MS, now: clock.monotonic, wait: (ms) => wait(ms) },
          report: ({ event }) => log.say('info', 'archive', { event }),
        },
        context.signal,
      );
      return EXIT.done;
    } finally {
      for (const close of closers.reverse()) await close();
    }
  });
}

interface OpenRegistries {
  readonly registry: Registry;
  readonly sessions: Registry;
  /** Past any pooler. */
  readonly direct: RegistryTarget;
}

async function withRegistries(
  { environment: { env } }: CommandContext,
  { fleet }: FleetConfig,
  metrics: FleetMetrics,
  act: (open: OpenRegistries) => Promise<ExitCode>,
): Promise<ExitCode> {
  const address = await readRegistryAddress(fleet, env);
  const target = registryTarget(address.reveal(), env);
  const past = await readRegistryAddress({ registry: fleet.directRegistry }, env);
  const direct = registryTarget(past.reveal(), env);
  const observe = (event: RegistryEvent): void => {
    if (event.event === 'refused') metrics.refused(event.by);
    else if (event.event === 'epochs-raised') metrics.epochsRaised(event.archives);
    else metrics.transaction(event.transaction, event.ms, event.failure);
  };
  const registry = await openRegistry(target, OF_ARCHIVES, observe);
  try {
    const sessions = await openRegistry(target, OF_SESSIONS, observe);
    try {
      return await act({ registry, sessions, direct });
    } finally {
      await sessions.close();
    }
  } finally {
    await registry.close();
  }
}
