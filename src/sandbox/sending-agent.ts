import { Agent } from 'undici';

/**
 * A separate file for lazy loading of undici: as a direct lazy import, a bundled CommonJS package would have no named
 * exports.
 */
export function sendingAgent(timeoutMs: number, maxHeaderSize: number): Agent {
  return new Agent({
    pipelining: 0,
    connect: { timeout: timeoutMs },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxHeaderSize,
  });
}
