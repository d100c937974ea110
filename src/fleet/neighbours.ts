import type { Settings } from '../config/settings.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import type { DaemonClock } from '../daemon/ports.ts';
import { noteReceiverEvent } from '../daemon/receiver-events.ts';
import { isOfMailbox, receiveFor } from '../receiver/receiver.ts';
import { sendHints } from '../registry/hints.ts';
import { listen } from '../registry/listening.ts';
import type { Registry } from '../registry/registry.ts';
import type { RegistryTarget } from '../registry/target.ts';
import { secretsByLookup } from '../registry/webhook-reading.ts';
import type { DeliveryHint } from '../wire/delivery.ts';
import { HintListening } from './hint-listening.ts';
import { type FleetHint, mailboxMark } from './hint-notes.ts';
import { type CountHints, HintSending } from './hint-sending.ts';
import type { Random } from './object-names.ts';
import type { FleetKeys } from './secrets.ts';
import { type Sender, WebhookSenders } from './webhook-senders.ts';
import type { Worker } from './worker.ts';

/** Those who listen to a worker, and those it listens to: webhooks, and the hints of other nodes. */
export interface FleetNeighbours {
  /** Brings hints to a worker until the returned function is called. */
  join(worker: Pick<Worker, 'hint'>, session: string): () => Promise<void>;
  close(): Promise<void>;
}

export interface NeighboursOptions {
  /** The UUID of the fleet. */
  readonly fleet: string;
  readonly keys: () => FleetKeys;
  readonly settings: Pick<Settings, 'webhook'>;
  readonly registry: Registry;
  /** Past any pooler. */
  readonly direct: RegistryTarget;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
  readonly random: Random;
}

const SENDER_BYTES = 9;

/**
 * Opens what the configuration of a node asks for.
 *
 * @throws cannot-listen
 */
export async function openFleetNeighbours(options: NeighboursOptions): Promise<FleetNeighbours> {
  const { settings, registry, direct, clock, log, random } = options;
  let worker: Pick<Worker, 'hint'> | undefined;
  const count: CountHints = () => {};
  const sending = new HintSending({
    sender: random(SENDER_BYTES).toString('base64url'),
    send: (archives, notes) => sendHints(registry, archives, notes),
    own(hint) {
      const taken = worker?.hint(hint) ?? null;
      if (taken === false) count('unknown', 1);
      return taken !== null;
    },
    ...{ clock, count },
    onFailure: (error) => log.fail('error', 'hints could not be sent', error),
  });
  const receiver =
    settings.webhook === null ? undefined : await receive(options, settings.webhook, sending);
  const received = (hint: FleetHint): void => {
    const taken = worker?.hint(hint) ?? null;
    if (taken !== true) count(taken === null ? 'late' : 'unknown', 1);
  };
  return {
    join(joined, session) {
      worker = joined;
      const over = new AbortController();
      const listening = new HintListening({
        open: (ports) => listen(direct, session, ports),
        ...{ onHint: received, clock, count, log },
      });
      const running = listening.run(over.signal).catch((error: unknown) => {
        log.fail('error', 'nobody listens for hints any more', error);
      });
      return async () => {
        worker = undefined;
        over.abort();
        await running;
      };
    },
    async close() {
      await receiver?.close();
      await sending.close();
    },
  };
}

async function receive(
  { fleet, keys, registry, clock, log }: NeighboursOptions,
  { listen: at, publicUrl }: NonNullable<Settings['webhook']>,
  sending: HintSending,
) {
  const senders = new WebhookSenders({
    ...{ fleet, keys, monotonic: clock.monotonic },
    find: (lookups, most) => secretsByLookup(registry, lookups, most),
    urls: publicUrl === null ? [] : [publicUrl],
    onDamaged: (error) => log.fail('error', 'the secret of a webhook cannot be read', error),
  });
  const receiver = await receiveFor(senders, {
    listen: at,
    now: clock.now,
    log: (event) => noteReceiverEvent(event, log, () => {}),
    onDelivery(sender, delivery) {
      for (const hint of hintsOf(fleet, sender, delivery)) sending.add(hint);
    },
  });
  log.say('info', 'webhooks are received', { port: receiver.address.port });
  return receiver;
}

/** What a delivery comes to. Its secret says whom it is from; what it says itself only tells where to look first. */
function hintsOf(fleet: string, { targets }: Sender, delivery: DeliveryHint): FleetHint[] {
  const { mailbox: named, folder, uid } = delivery;
  // Only INBOX is looked up by uid.
  const isInbox = (folder ?? 'INBOX') === 'INBOX';
  return targets.map(({ archive, mailbox }) => {
    const isOwn = mailbox === null || isOfMailbox(delivery, mailbox);
    const of = mailbox?.id ?? named;
    return {
      archive,
      mailbox: of === null ? null : mailboxMark(fleet, of),
      uid: isOwn && isInbox && of !== null ? uid : null,
    };
  });
}
