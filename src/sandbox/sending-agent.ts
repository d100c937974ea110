import { Agent } from 'undici';

/**
 * A file of its own, so that undici loads on demand. A bundled CommonJS package has no named exports if imported
 * directly.
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
