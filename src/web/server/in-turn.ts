import { Turns } from '../reading/turns.ts';
import type { RequestContext } from './request-context.ts';

/** Searches run one after the other: they hold the thread, and each may find that its browser has left. */
const searches = new Turns(1);

/**
 * Answers a request when it has its turn; one that the browser has left before is not begun. What `make` does until it
 * first waits belongs to the turn. What it waits for, such as a message that is parsed, holds up no other request, and is
 * given up when the browser leaves.
 *
 * @param make gets the signal that is aborted when the connection closes
 */
export async function inTurn(
  context: RequestContext,
  make: (signal: AbortSignal) => Response | Promise<Response>,
): Promise<Response> {
  const { signal } = context.req.raw;
  try {
    // Within an object, the turn does not wait for the answer.
    const { answer } = await searches.take(() => ({ answer: make(signal) }), signal);
    return await answer;
  } catch (error) {
    if (!signal.aborted) throw error;
    // Nobody hears it.
    return context.body(null, 503);
  }
}
