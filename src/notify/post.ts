import { following } from '../limiter/on-abort.ts';
import type { Outcome } from './command.ts';
import type { NotificationMessage } from './message.ts';

/**
 * POSTs a notification as JSON. In the address, `{code}` stands for 0 or 1 and `{status}` for `up` or `down`: services
 * that watch for signs of life take a failure by them.
 *
 * @param url a secret: whoever knows it may speak in our name
 */
export async function postMessage(
  url: string,
  message: NotificationMessage,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const filled = url
    .replaceAll('{code}', message.ok ? '0' : '1')
    .replaceAll('{status}', message.ok ? 'up' : 'down');
  const { controller, release } = following(signal);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    controller.abort();
  }, timeoutMs);
  try {
    const response = await fetch(filled, {
      method: 'POST',
      // Where it would lead is for the configuration to say; a POST may become a GET on its way, and be lost.
      redirect: 'manual',
      headers: { 'content-type': 'application/json', 'user-agent': `mailkeep/${message.version}` },
      body: JSON.stringify(message),
      signal: controller.signal,
    });
    await response.body?.cancel();
    return response.ok ? { sent: true } : { sent: false, reason: `status ${response.status}` };
  } catch (error) {
    if (late) return { sent: false, reason: 'timeout' };
    if (signal.aborted) return { sent: false, reason: 'stopped' };
    // The error's own words may hold the address.
    return { sent: false, reason: connectionCode(error) };
  } finally {
    clearTimeout(timer);
    release();
  }
}

function connectionCode(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const code: unknown =
    typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined;
  return typeof code === 'string' ? code : 'no answer';
}
