import type { Settings } from '../core/config-schema.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import { logReceiverEvent } from '../daemon/daemon-log.ts';
import type { DaemonClock } from '../daemon/ports.ts';
import { concernsMailbox, type Receiver, receiveFor } from '../daemon/receiver.ts';
import type { Registry } from '../registry/registry.ts';
import { secretsByLookup } from '../registry/webhook-reading.ts';
import type { DeliveryHint } from '../service/platform-wire.ts';
import { type FleetHint, mailboxMark } from './hint-notes.ts';
import type { FleetKeys } from './secrets.ts';
import { type Sender, WebhookSenders } from './webhook-senders.ts';

export interface ReceivingOptions {
  /** The UUID of the fleet. */
  readonly fleet: string;
  readonly keys: () => FleetKeys;
  readonly registry: Registry;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
  readonly onHint: (hint: FleetHint) => void;
  /** Called with `delivery`, or why requests were refused, and with how many they were. */
  readonly onRequests: (outcome: string, times: number) => void;
}

/**
 * Receives webhooks for all accounts of a fleet, as the daemon does for its own.
 *
 * @throws cannot-listen
 */
export async function receiveWebhooks(
  { listen, publicUrl }: NonNullable<Settings['webhook']>,
  { fleet, keys, registry, clock, log, onHint, onRequests }: ReceivingOptions,
): Promise<Receiver> {
  const senders = new WebhookSenders({
    ...{ fleet, keys, monotonic: clock.monotonic },
    find: (lookups, most) => secretsByLookup(registry, lookups, most),
    urls: publicUrl === null ? [] : [publicUrl],
    onDamaged: (error) => log.fail('error', 'the secret of a webhook cannot be read', error),
  });
  const receiver = await receiveFor(senders, {
    listen,
    now: clock.now,
    log: (event) => logReceiverEvent(event, log, onRequests),
    onDelivery(sender, delivery) {
      for (const hint of hintsOf(fleet, sender, delivery)) onHint(hint);
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
    const isOwn = mailbox === null || concernsMailbox(delivery, mailbox);
    const of = mailbox?.id ?? named;
    return {
      archive,
      mailbox: of === null ? null : mailboxMark(fleet, of),
      uid: isOwn && isInbox && of !== null ? uid : null,
    };
  });
}
