import type { ReceiverEvent } from '../receiver/reception.ts';
import type { DaemonLog } from './daemon-log.ts';

/**
 * Logs what a receiver of webhooks reports, and counts the requests.
 *
 * @param count called with `delivery`, or why requests were refused, and with how many they were
 */
export function noteReceiverEvent(
  event: ReceiverEvent,
  log: Pick<DaemonLog, 'say' | 'fail'>,
  count: (outcome: string, times: number) => void,
): void {
  switch (event.event) {
    case 'delivery':
      count('delivery', 1);
      log.say('debug', 'webhook delivery', { webhook: event.webhook, bytes: event.bytes });
      return;
    case 'refused':
      count(event.reason, event.times);
      log.say('warn', 'webhook requests refused', { reason: event.reason, times: event.times });
      return;
    case 'secrets-unreadable':
      log.say('warn', 'the secrets of webhooks cannot be read', { code: event.code });
      return;
    case 'failed':
      log.fail('error', 'a webhook delivery could not be taken', event.error);
      return;
  }
}
