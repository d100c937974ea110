import type { Agent } from 'undici';

/** Where a delivery goes, and the secret that authenticates the sender. */
export interface DeliveryTarget {
  readonly url: string;
  readonly secret: string;
}

/** What one POST to a webhook's URL came to. */
export interface DeliveryOutcome {
  /** Null when no answer came. */
  readonly httpStatus: number | null;
  /** True for any 2xx. */
  readonly success: boolean;
  /** Why not: what the endpoint said, else what happened to the connection. Never the secret. */
  readonly error: string | null;
  readonly durationMs: number;
}

/** POSTs a JSON text once. Never rejects for what the receiver does. */
export type Send = (
  target: DeliveryTarget,
  body: string,
  signal: AbortSignal,
) => Promise<DeliveryOutcome>;

export interface Sender {
  readonly send: Send;
  /** Breaks what is open. */
  close(): Promise<void>;
}

/** More of an answer is not read: the status says enough. */
const MOST_ANSWER_BYTES = 64 * 1024;
/** Of an endpoint's own words this much is kept. */
const MOST_ERROR_CHARACTERS = 1000;

/**
 * Sends over connections of its own, one for each delivery: receivers come and go, and a connection that was
 * kept open would fail a delivery to one that only restarted. Redirects are not followed, since the secret
 * would go along.
 *
 * @param timeoutMs for the whole exchange
 */
export function openSender(timeoutMs: number): Sender {
  let agent: Promise<Agent> | null = null;
  const opened = () => {
    // Loaded with the first delivery: undici takes longer to load than the rest of the service.
    agent ??= import('./sending-agent.ts').then(({ sendingAgent }) =>
      sendingAgent(timeoutMs, MOST_ANSWER_BYTES),
    );
    return agent;
  };
  return {
    send: async (target, body, signal) => sendOnce(await opened(), target, body, timeoutMs, signal),
    close: async () => {
      if (agent !== null) await (await agent).destroy();
    },
  };
}

async function sendOnce(
  agent: Agent,
  target: DeliveryTarget,
  body: string,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const started = performance.now();
  const outcome = (httpStatus: number | null, error: string | null): DeliveryOutcome => ({
    httpStatus,
    success: error === null,
    error: error === null ? null : error.replaceAll(target.secret, '[secret]'),
    // Clients take an entry of no duration for one that was never tried.
    durationMs: Math.max(1, Math.round(performance.now() - started)),
  });
  const timeout = AbortSignal.timeout(timeoutMs);
  try {
    const url = new URL(target.url);
    const answer = await agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${target.secret}`,
        'user-agent': 'mailkeep-sandbox',
      },
      body,
      signal: AbortSignal.any([signal, timeout]),
    });
    const { statusCode } = answer;
    const said = await readStart(answer.body);
    if (statusCode >= 200 && statusCode < 300) return outcome(statusCode, null);
    return outcome(
      statusCode,
      `The endpoint answered ${statusCode}${said === '' ? '' : `: ${said}`}`,
    );
  } catch (error) {
    if (timeout.aborted) return outcome(null, `No answer within ${timeoutMs} ms`);
    if (signal.aborted) return outcome(null, 'The delivery was called off');
    return outcome(null, reasonOf(error));
  }
}

/** The beginning of an answer as one line. The status is known by now: a body that breaks off changes nothing. */
async function readStart(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= MOST_ANSWER_BYTES) break;
    }
  } catch {
    // What came is what there is.
  }
  return Buffer.concat(chunks)
    .toString('utf8', 0, MOST_ANSWER_BYTES)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, MOST_ERROR_CHARACTERS);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  // Where several addresses were tried there is a code and no message.
  return error.message === '' ? code : error.message;
}
