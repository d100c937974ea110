import { Agent } from 'undici';

/** A bundled CommonJS package has no named exports if imported on demand, as undici is, hence this file. */
export function sendingAgent(timeoutMs: number, maxHeaderSize: number): Agent {
  return new Agent({
    pipelining: 0,
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxHeaderSize,
  });
}
